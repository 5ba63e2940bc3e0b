"""Options of `hardsight check`, and rules of a data test: `label_errors > 2%` fails where more than two in a hundred are flagged.

label_errors          labels that are flagged: more likely wrong than right
expected_errors_low   low end of the interval of wrong labels
duplicates            samples that repeat another
leaks                 samples that repeat one of another split, or share its group
outliers              samples far from all others
unreadable            images that cannot be decoded
accuracy              share of the labels that a model which has not seen them agrees with

A count with a percent sign is compared as a share of the samples. What could not be counted fails no rule, and is said.

Nothing heavy is imported: `--help` is quick.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardsight.errors import InputError, did_you_mean
from hardsight.extraction.settings import PreprocessingOptions
from hardsight.options import OpeningOptions, common, option

FIGURES = ("label_errors", "expected_errors_low", "duplicates", "leaks", "outliers", "unreadable", "accuracy")
COMPARE = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne}


@dataclass(frozen=True)
class Rule:
    """A rule that fails where `figure` compares to `limit`."""

    text: str
    figure: str
    compare: str
    limit: float
    share: bool  # of the samples

    @classmethod
    def parse(cls, text: str) -> Rule:
        """Read a rule, such as `duplicates >= 10` or `accuracy < 90%`.

        Example:
            >>> rule = Rule.parse("label_errors>2 %")
            >>> rule.figure, rule.compare, rule.limit, rule.share
            ('label_errors', '>', 0.02, True)
        """
        parts = re.fullmatch(r"\s*([A-Za-z_]+)\s*(>=|<=|==|!=|>|<)\s*([0-9]*\.?[0-9]+)\s*(%?)\s*", text)
        if parts is None:
            raise InputError(f"a rule is FIGURE > NUMBER or FIGURE > NUMBER%, such as 'label_errors > 2%', got {text!r}.")
        figure, compare, number, percent = parts.groups()
        if figure not in FIGURES:
            raise InputError(f"{text!r}: a rule is about {', '.join(FIGURES)}, got {figure!r}.{did_you_mean(figure, FIGURES)}")
        share = bool(percent) or figure == "accuracy"  # accuracy < 0.9 and accuracy < 90% mean the same
        limit = float(number) / 100 if percent else float(number)
        if share and limit > 1:
            hint = "" if percent else " Add the %."
            raise InputError(f"{text!r}: a share is at most 100%, or 1; got {number}{percent}.{hint}")
        if not share and limit % 1 and figure != "expected_errors_low":
            raise InputError(f"{text!r}: {figure} is a number of samples, got {number}; for a share of them write {limit:.0%}.")
        return cls(text.strip(), figure, compare, limit, share)

    def outcome(self, figures: Mapping[str, float | None], samples: int) -> RuleOutcome:
        """What the rule makes of the figures; accuracy is a share already."""
        value = figures.get(self.figure)
        if value is None:
            return RuleOutcome(self, None, None)
        samples += int(figures["unreadable"] or 0) if self.figure == "unreadable" else 0  # of all files
        compared = value / max(1, samples) if self.share and self.figure != "accuracy" else value
        failed = bool(COMPARE[self.compare](compared, self.limit))
        return RuleOutcome(self, value, failed, compared if self.share and self.figure != "accuracy" else None)


@dataclass(frozen=True)
class RuleOutcome:
    """A rule, the value of its figure, and whether it failed; None where that cannot be told."""

    rule: Rule
    value: float | None
    failed: bool | None
    share: float | None = None  # of the samples, where the rule is about that

    @property
    def result(self) -> str:
        """In a word or two: passed, failed, or cannot tell."""
        return "cannot tell" if self.failed is None else "failed" if self.failed else "passed"

    @property
    def record(self) -> dict[str, Any]:
        """For --json."""
        return {"rule": self.rule.text, "value": self.value, "share": self.share, "result": self.result}

    @property
    def sentence(self) -> str:
        """What to say of it."""
        if self.failed is None:
            return f"cannot tell: {self.rule.text} ({self.rule.figure} was not counted, so the rule does not fail)"
        shown = f"{100 * (self.value or 0):.1f} %" if self.rule.figure == "accuracy" else f"{self.value:.1f}".removesuffix(".0")
        shown += "" if self.share is None else f", {100 * self.share:.1f} %"
        return f"{self.result}: {self.rule.figure} is {shown} (fails if {self.rule.text})"


def _rules(texts: Any) -> tuple[str, ...]:
    """Rules as text, each of which can be read."""
    rules = (texts,) if isinstance(texts, str) else tuple(texts) if isinstance(texts, Iterable) else (texts,)
    return tuple(Rule.parse(str(text)).text for text in rules)


@dataclass(frozen=True)
class CheckSettings(OpeningOptions):
    """What looks at the images, what belongs together, and what fails a data test."""

    model: Any = option(
        None, "Classifier of these classes: timm:NAME (with hardsight[timm]), module:function, a run, ... Default: none needed.",
        metavar="MODEL",
    )  # fmt: skip
    weights: Path | None = option(
        None, "Weights of the model or of the embedder timm:NAME: .safetensors, or .pt with tensors only.", metavar="FILE",
        read=Path,
    )  # fmt: skip
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

    @property
    def rules(self) -> list[Rule]:
        """The rules, read."""
        return [Rule.parse(text) for text in self.fail_on]
