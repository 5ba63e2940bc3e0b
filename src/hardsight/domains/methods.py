"""The methods of `adapt` by name: stages with a plus between them, each of which starts from the model of those before it.

    source                       the source model
    coral, subspace              the source model again, trained on aligned features (alignment.py)
    mmd, dann, mcd, adr, ...     then the network learns from both domains, without labels of the target, each in its own file
    entropy                      the same by minimizing the entropy of the target (entropy.py)
    cbst, crst, cbst+avh, ...    then self-training (self_training.py)

`coral+cbst+avh` is CBST+AVH from the model that CORAL gives, `entropy+cbst` CBST after entropy minimization.

A stage is a class whose fields are its options (`--method-options coral:reg=10`). An alignment has `maps`. All others are trained
in rounds: they derive from `RoundStage` (paired_steps.py). Such a stage has `choose`, for the pseudo-labels of a round, `target`,
for the target samples to train on, and `loss`; or it is a `PairedMethod`, which has a `step` on a batch of each domain. A new one
is a file with such a class, and a line in STAGES.
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

AnyRoundStage = PairedMethod | Entropy | SelfTraining
Stage = Coral | Subspace | AnyRoundStage
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
        if str(name).strip().lower() == SOURCE_ONLY:
            return cls()
        stages = str(name).strip().lower().split("+")
        alignment = stages.pop(0) if stages[0] in ALIGNMENTS else None
        unlabeled = stages.pop(0) if stages and stages[0] in UNLABELED else None
        if not stages:
            return cls(alignment, unlabeled)
        if {*EARLY, SOURCE_ONLY, AUTO} & {*stages}:
            raise InputError(
                f"stages are an alignment ({', '.join(ALIGNMENTS)}), then {' or '.join(UNLABELED)}, then self-training, each "
                f"once at most, and {SOURCE_ONLY} and {AUTO} stand alone; got {name!r}."
            )
        return cls(alignment, unlabeled, check_method("+".join(stages), also=(*EARLY, SOURCE_ONLY, AUTO)))

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
