"""Rules of a data test: `label_errors > 2%` fails where more than two in a hundred labels are flagged.

label_errors          labels that are flagged: more likely wrong than right
expected_errors_low   low end of the interval of wrong labels
duplicates            samples that repeat another
leaks                 samples that repeat one of another split, or share its group
outliers              samples far from all others
unreadable            images that cannot be decoded
accuracy              share of the labels that a model which has not seen them agrees with

A count with a percent sign is compared as a share of the samples. What could not be counted fails no rule, and is said.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hardsight.errors import InputError, did_you_mean

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
        return cls(text.strip(), figure, compare, float(number) / 100 if percent else float(number), share)

    def outcome(self, figures: Mapping[str, float | None], samples: int) -> RuleOutcome:
        """What the rule makes of the figures; accuracy is a share already."""
        value = figures.get(self.figure)
        if value is None:
            return RuleOutcome(self, None, None)
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
        shown = f"{100 * (self.value or 0):.1f}%" if self.rule.figure == "accuracy" else f"{self.value:.0f}"
        shown += "" if self.share is None else f", {100 * self.share:.1f}%"
        return f"{self.result}: {self.rule.figure} is {shown} (fails if {self.rule.text})"
