"""The methods of `adapt` by name: stages with a plus between them, each of which starts from the model of those before it.

    source                       the source model
    coral, subspace              the source model again, trained on aligned features (alignment.py)
    mmd, dann, mcd, adr, ...     then the network learns from both domains, without labels of the target, each in its own file
    entropy                      the same by minimizing the entropy of the target (entropy.py)
    cbst, crst, cbst+avh, ...    then self-training (self_training.py)

`coral+cbst+avh` is CBST+AVH from the model that CORAL gives, `entropy+cbst` CBST after entropy minimization.

A stage is a class whose fields are its options (`--method-options coral:reg=10`). An alignment has `maps`. A stage that is
trained in rounds has `choose`, for the pseudo-labels of a round, `target`, for the target samples to train on, and `loss`; or it
is a `PairedMethod`, which has a `step` on a batch of each domain. A new one is a file with such a class, and a line in STAGES.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hardsight.domains.adr import ADR
from hardsight.domains.alignment import Coral, Subspace
from hardsight.domains.dann import DANN
from hardsight.domains.deep_coral import DeepCoral
from hardsight.domains.entropy import Entropy
from hardsight.domains.mcd import MCD
from hardsight.domains.mmd import MMD
from hardsight.domains.paired_steps import PairedMethod
from hardsight.domains.pseudo_labels import OF_A_SNAPSHOT, check_method
from hardsight.domains.self_training import CRST, LRENT, MRKLD, OneThreshold, SelfTraining
from hardsight.domains.settings import AUTO, SOURCE_ONLY
from hardsight.errors import InputError

Stage = Coral | Subspace | PairedMethod | Entropy | SelfTraining
RoundStage = PairedMethod | Entropy | SelfTraining
STAGES: dict[str, type[Stage]] = {
    "coral": Coral,
    "subspace": Subspace,
    "mmd": MMD,
    "deep-coral": DeepCoral,
    "dann": DANN,
    "mcd": MCD,
    "adr": ADR,
    "entropy": Entropy,
    "cbst": SelfTraining,
    "crst": CRST,
    "crst-mrkld": MRKLD,
    "crst-lrent": LRENT,
    **{f"cbst+{score}": SelfTraining for score in ("avh", *OF_A_SNAPSHOT)},
    "avc": SelfTraining,
    "threshold": OneThreshold,
    "weighted": SelfTraining,
    "depict": SelfTraining,
}
ALIGNMENTS = tuple(name for name, stage in STAGES.items() if hasattr(stage, "maps"))
UNLABELED = tuple(name for name, stage in STAGES.items() if name not in ALIGNMENTS and not issubclass(stage, SelfTraining))
EARLY = (*ALIGNMENTS, *UNLABELED)  # stages that go before self-training


def stage_of(name: str, method_options: Mapping[str, Mapping[str, Any]]) -> Stage:
    """A stage of a method with its options."""
    return STAGES[name](**method_options.get(name, {}))


@dataclass(frozen=True)
class Method:
    """A method, read from its name.

    Attributes:
        alignment: one of ALIGNMENTS, or None.
        unlabeled: one of UNLABELED, which train in rounds without pseudo-labels, or None.
        rule: how self-training selects, as `select_pseudo_labels` calls it; None for no self-training.
    """

    alignment: str | None = None
    unlabeled: str | None = None
    rule: str | None = None

    @classmethod
    def read(cls, name: str) -> Method:
        """From its name, or an InputError; `auto` is none, but a choice between several (see auto.py).

        Example:
            >>> Method.read("coral+cbst+avh")
            Method(alignment='coral', unlabeled=None, rule='cbst+avh')
        """
        rest: str | None = str(name).strip().lower()
        if rest == SOURCE_ONLY:
            return cls()
        stages = str(rest).split("+")
        if "" in stages[1:] or (stages[0] == "" and len(stages) > 1):
            raise InputError(f"a plus stands between two stages, as in coral+cbst; got {str(name)!r}.")
        alignment, rest = _first_stage(rest, ALIGNMENTS)
        unlabeled, rest = _first_stage(rest, UNLABELED)
        if rest is not None and {*EARLY, SOURCE_ONLY, AUTO} & {*rest.split("+")}:
            raise InputError(
                f"stages are an alignment, then {' or '.join(UNLABELED)}, then self-training, each once at most, and "
                f"{SOURCE_ONLY} and {AUTO} stand alone; got {name!r}.{_in_order(stages)}"
            )
        rule = None if rest is None else check_method(rest, also=(*EARLY, SOURCE_ONLY, AUTO))
        return cls(alignment, unlabeled, rule)

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages in order; none for the source model."""
        return tuple(part for part in (self.alignment, self.unlabeled, self.rule) if part is not None)

    @property
    def name(self) -> str:
        """As it is written."""
        return "+".join(self.stages) or SOURCE_ONLY

    @property
    def is_source_model(self) -> bool:
        """Whether it is trained on source samples alone, aligned or not."""
        return self.rule is None and self.unlabeled is None

    @property
    def before(self) -> Method:
        """The method whose model this one starts from; of one that is trained on the source alone, itself."""
        return replace(self, rule=None) if self.rule is not None else replace(self, unlabeled=None)


def _in_order(stages: list[str]) -> str:
    """A hint where stages are right but for their order; otherwise an empty string."""
    early = [stage for stage in EARLY if stage in stages]
    ordered = "+".join([*early, *(stage for stage in stages if stage not in early)])
    right = len(set(stages)) == len(stages) and len({*ALIGNMENTS} & {*early}) < 2 and not {SOURCE_ONLY, AUTO} & {*stages}
    return f" Write {ordered}: {early[0]} goes first." if right else ""


def _first_stage(rest: str | None, known: Iterable[str]) -> tuple[str | None, str | None]:
    """The first stage if it is one of those known, and what follows it; None for nothing."""
    first, plus, following = (rest or "").partition("+")
    return (first, following if plus else None) if first in known else (None, rest)


def models_for(methods: Iterable[str]) -> Iterator[Method]:
    """Every model that some methods need, each after the one that it starts from, none twice.

    Example:
        >>> [model.name for model in models_for(["cbst", "coral+cbst"])]
        ['source', 'cbst', 'coral', 'coral+cbst']
    """
    seen: set[Method] = set()
    for name in (SOURCE_ONLY, *methods):
        method = Method.read(name)
        for model in dict.fromkeys((method.before.before, method.before, method)):
            if model not in seen:
                seen.add(model)
                yield model
