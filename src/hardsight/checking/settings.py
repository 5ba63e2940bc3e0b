"""Options of `hardsight check`, defined once. Nothing heavy is imported: `--help` is quick."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardsight.checking.rules import Rule
from hardsight.errors import InputError
from hardsight.extraction.settings import PreprocessingOptions
from hardsight.options import OpeningOptions, common, option


def _rules(texts: Any) -> tuple[str, ...]:
    """Rules as text, each of which can be read."""
    rules = (texts,) if isinstance(texts, str) else tuple(texts) if isinstance(texts, Iterable) else (texts,)
    return tuple(Rule.parse(str(text)).text for text in rules)


@dataclass(frozen=True)
class CheckSettings(OpeningOptions):
    """What looks at the images, what belongs together, and what fails a data test."""

    model: Any = option(
        None, "Classifier of these classes, as in extract: timm:NAME, module:function, a run, ... Default: none needed.",
        metavar="MODEL",
    )  # fmt: skip
    weights: Path | None = option(
        None,
        "Weights of the model or of the embedder timm:NAME: .safetensors, or .pt with tensors only.",
        metavar="FILE",
        read=Path,
    )
    embedder: str | None = option(
        None, "Backbone for features, where there is no model: timm:NAME or hf:DIR_OR_NAME. Default: EfficientNet-Lite0.",
        metavar="NAME",
    )  # fmt: skip
    device: Any = common("device")
    exact_decode: bool = PreprocessingOptions.redefine("exact_decode", False)
    group: str | None = option(
        None,
        "Column whose samples belong together, such as a patient: they stay in one fold where labels are judged, and must not be "
        "in two splits. Scores and the comparison of other columns do not use it.",
        metavar="COLUMN",
    )  # fmt: skip
    seed: int = common("seed")
    fail_on: tuple[str, ...] = option(
        (), "Rule that fails the check, such as 'label_errors > 2%' or 'leaks > 0'; repeatable.", metavar="RULE", repeat=True,
        read=_rules, decides=False,
    )  # fmt: skip

    def check(self) -> None:
        """One of a model and an embedder."""
        super().check()
        if self.model is not None and self.embedder is not None:
            raise InputError(f"give a model or an embedder, not both: got {self.model!r} and {self.embedder!r}.")

    @property
    def rules(self) -> list[Rule]:
        """The rules, read."""
        return [Rule.parse(text) for text in self.fail_on]
