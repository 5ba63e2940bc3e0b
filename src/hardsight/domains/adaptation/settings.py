"""The options of self-training, each defined once. Nothing here imports NumPy or torch."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from hardsight.domains.settings import DomainOptions, Standardize, check_different, read_list
from hardsight.errors import InputError
from hardsight.options import Options, option
from hardsight.training.settings import Optimizer, read_augment

if TYPE_CHECKING:
    from hardsight.domains.source_training import TrainingLength

Rule = Literal["classification", "segmentation"]
GroupBy = Literal["predicted", "label"]
KcValue = Literal["conf", "prob"]
KcPolicy = Literal["cb", "global", "ucb"]
SOURCE_ONLY = "source"  # the method that does nothing
AUTO = "auto"  # the method that chooses between others
LRENT = 0.25  # temperature of CRST's soft labels
CORAL_REG = 1.0  # lambda of CORAL, for features of unit variance
SUBSPACE_SIZE = 30  # directions of subspace alignment, where there are as many
SOURCE_EPOCHS = 8  # passes over the source, where they make enough steps
RECIPES: dict[str, dict[str, Any]] = {  # the defaults, by what is trained on
    "features": {"optimizer": "sgd", "lr": 0.03, "weight_decay": 0.05},
    "images": {"optimizer": "adamw", "lr": 1e-3, "weight_decay": 5e-4},
}


@dataclass(frozen=True)
class Portions:
    """A portion that grows round by round: used first, then raised.

    Example:
        >>> growing = Portions.read("0.2:0.05:0.3", "portion")
        >>> [round(growing.at(number), 2) for number in (1, 2, 3, 4)]
        [0.2, 0.25, 0.3, 0.3]
    """

    start: float
    step: float = 0.0
    stop: float = 1.0

    @classmethod
    def read(cls, text: Any, name: str) -> Portions:
        """`start:step:stop`, one number for all rounds, or the three as a tuple."""
        if isinstance(text, Portions):
            return text
        try:
            numbers = [float(part) for part in (str(text).split(":") if isinstance(text, (str, int, float)) else text)]
        except (TypeError, ValueError) as error:
            raise InputError(f"{name} is written start:step:stop, as in 0.2:0.05:0.5, or as one number; got {text!r}.") from error
        if len(numbers) == 1:
            numbers = [numbers[0], 0.0, numbers[0]]
        if len(numbers) != 3 or not all(0 <= number <= 1 for number in numbers) or numbers[2] < numbers[0]:
            raise InputError(f"{name} is written start:step:stop with 0 <= start <= stop <= 1, got {text!r}.")
        return cls(*numbers)

    def at(self, round_number: int) -> float:
        """The portion of a round, counted from 1."""
        return min(self.start + (round_number - 1) * self.step, self.stop)

    def __str__(self) -> str:
        return f"{self.start:g}:{self.step:g}:{self.stop:g}"


def read_methods(value: Any) -> tuple[str, ...]:
    """Methods by name, with `source` for none at all and `auto` for a choice; a text has commas between them."""
    from hardsight.domains.adaptation.methods import Method

    names = read_list(value, "methods")
    return tuple(AUTO if str(name).strip().lower() == AUTO else Method.read(name).name for name in names)


@dataclass(frozen=True)
class RankingOptions(Options):
    """How the thresholds of self-training are ranked."""

    rule: Rule = option("classification", "Ranking rule of a class's threshold: classification or segmentation.")
    group_by: GroupBy = option(
        "predicted", "Samples that a score's threshold is ranked among: those predicted as the class, or labeled as it (label)."
    )
    kc_value: KcValue = option(
        "conf",
        "Values that a class's threshold is ranked among: confidences of samples predicted as it (conf), or its probabilities "
        "over all samples (prob).",
    )
    kc_policy: KcPolicy = option(
        "cb",
        "Threshold that probabilities are divided by: each class's own (cb), one for all (global), or the predicted "
        "class's (ucb).",
    )


@dataclass(frozen=True)
class SelectionOptions(RankingOptions):
    """The options of `hardsight.domains.adaptation.select_pseudo_labels`."""

    alpha: float = option(LRENT, "Temperature of LRENT's soft labels; towards 0 it becomes CBST.", above=0)
    threshold: float | None = option(
        None,
        "Fixed probability for the method threshold, whatever the portion above 0. Default: that of all samples at the portion.",
        least=0,
        most=1,
    )


@dataclass(frozen=True)
class AdaptSettings(RankingOptions, DomainOptions):
    """The options of `hardsight.adapt` and `hardsight adapt`."""

    FOR_IMAGES: ClassVar[tuple[str, ...]] = (*DomainOptions.FOR_IMAGES, "target_augment", "flip_labels")
    FOR_FEATURES: ClassVar[tuple[str, ...]] = (*DomainOptions.FOR_FEATURES, "standardize", "coral_reg", "subspace_size")
    methods: tuple[str, ...] = option(
        "cbst+avh",
        "Comma-separated methods to compare: cbst, crst, crst-mrkld, crst-lrent, cbst+avh, cbst+SCORE, avc, threshold, weighted, "
        "depict; coral, subspace and entropy, alone or before one of these (coral+cbst); source is no adaptation, "
        "auto chooses method and round without labels.",
        read=read_methods,
    )
    images: Any = option(
        None,
        "Images of the target samples for the figures, where TARGET holds features; matched by id.",
        metavar="DATA",
        decides=False,
    )
    rounds: int = option(10, "Rounds of selecting pseudo-labels and training on them.", least=1)
    epochs: int = option(2, "Passes over source and selected samples in each round.", least=1)
    source_epochs: int | None = option(
        None,
        "Passes over the source alone before the first round. Default: 8, more for a small source (held-out samples say how "
        "many), 0 for a trained run.",
        least=0,
    )
    portion: Portions = option(
        "0.2:0.05:0.5",
        "Share of each class to pseudo-label, as start:step:stop over the rounds.",
        read=partial(Portions.read, name="portion"),
    )
    source_portion: Portions = option(
        "1",
        "Share of the source samples to train on in each round, as start:step:stop or one number.",
        read=partial(Portions.read, name="source_portion"),
    )
    standardize: Standardize = option(
        "domain",
        "Standardize features by the mean and standard deviation of their own domain, of the source, or not at all (none).",
    )
    balance: bool = option(True, "Draw the same number of source samples from each class.", flag="--balance/--no-balance")
    relabel: bool = option(False, "Select pseudo-labels before each epoch, not only before each round.")
    reset_optimizer: bool = option(False, "Reset the optimizer's momentum before each round.")
    flip_labels: bool = option(False, "Average the probabilities of each image and its mirror image to choose pseudo-labels.")
    ema: float = option(
        0.0,
        "Decay of a moving average of the weights, which is then used for pseudo-labels and evaluation; 0 for none.",
        least=0,
        below=1,
    )
    lrent: float = option(LRENT, "Temperature of CRST's soft labels.", above=0)
    mrkld: float = option(
        0.01, "Weight of CRST's regularizer. Public code applies its weight twice: its 0.1 is 0.01 here.", least=0
    )
    coral_reg: float = option(CORAL_REG, "Regularization of CORAL: added to the diagonal of its covariance matrices.", above=0)
    subspace_size: int = option(SUBSPACE_SIZE, "Number of principal directions that subspace alignment keeps.", least=1)
    entropy_weight: float = option(0.1, "Weight of the target entropy in the loss, for the method entropy.", above=0)
    target_augment: str | None = option(
        None, "Augmentations of target images, in the form of --augment. Default: those of --augment.", read=read_augment
    )
    source_lr: float | None = option(None, "Learning rate on the source. Default: --lr.", above=0)
    batch_size: int = DomainOptions.redefine("batch_size", 256, help="Samples per step.")
    optimizer: Optimizer | None = DomainOptions.redefine(  # type: ignore[assignment]
        "optimizer", None, help="Optimizer: sgd or adamw. Default: sgd on features, adamw on images."
    )
    lr: float | None = DomainOptions.redefine(
        "lr", None, help="Learning rate of the rounds. Default: 0.03 on features, 0.001 on images."
    )
    weight_decay: float | None = DomainOptions.redefine(  # type: ignore[assignment]
        "weight_decay", None, help="Weight decay of matrices and filters. Default: 0.05 on features, 0.0005 on images."
    )

    def check(self) -> None:
        """There must be at least one method, none twice, and something to select in the last round."""
        super().check()
        check_different("methods", self.methods)
        if self.source_portion.start == 0:
            raise InputError("source_portion must be above 0: every round trains on some source samples, got 0.")
        if self.portion.at(self.rounds) == 0:
            raise InputError(
                f"portion {self.portion.start:g} selects nothing in any round: it must rise above 0, as 0.2:0.05:0.5."
            )

    def for_data(self, kind: str, trained: bool, smallest: int) -> Self:
        """The same with its defaults filled in.

        Args:
            kind: "features" or "images", a key of RECIPES.
            trained: whether the model has been trained already.
            smallest: samples of the smallest source; where it is too small for the usual passes, `source_epochs` stays None.
        """
        recipe, lr = dict(RECIPES[kind]), RECIPES[kind]["lr"] if self.lr is None else self.lr
        if trained or not self.source_length(smallest).watched:
            recipe["source_epochs"] = 0 if trained else SOURCE_EPOCHS
        missing = {name: value for name, value in recipe.items() if getattr(self, name) is None}
        return dataclasses.replace(self, **missing, source_lr=lr if self.source_lr is None else self.source_lr)

    def source_length(self, num_samples: int) -> TrainingLength:
        """How long to train on a source of this size: `source_epochs`, or by its size."""
        from hardsight.domains.source_training import TrainingLength, training_length

        if self.source_epochs is not None:
            return TrainingLength(self.source_epochs)
        return training_length(num_samples, self.batch_size, SOURCE_EPOCHS)
