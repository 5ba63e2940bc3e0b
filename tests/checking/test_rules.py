"""Rules of a data test: what they say, what they fail on, and what cannot be told."""

from __future__ import annotations

import pytest

from hardsight.checking.settings import FIGURES, Rule
from hardsight.errors import InputError


@pytest.mark.parametrize(
    ("text", "value", "failed"),
    [
        ("label_errors > 2%", 2, False),  # of 100
        ("label_errors > 2%", 3, True),
        ("label_errors>=2", 2, True),
        ("duplicates == 0", 0, True),
        ("duplicates != 0", 0, False),
        ("leaks > 0", 1, True),
        ("unreadable <= 1.5%", 1, True),
        ("accuracy < 90%", 0.9, False),
        ("accuracy < 0.9", 0.89, True),  # with and without the percent sign
        ("outliers > .5 %", 1, True),
    ],
)
def test_a_rule_by_hand(text: str, value: float, failed: bool) -> None:
    rule = Rule.parse(text)
    outcome = rule.outcome({rule.figure: value}, 100)
    assert outcome.failed is failed
    assert rule.text in outcome.sentence and outcome.sentence.startswith("failed" if failed else "passed")


def test_the_share_of_unreadable_images_is_of_all_files() -> None:
    outcome = Rule.parse("unreadable > 60%").outcome({"unreadable": 18}, 18)  # 18 others were read
    assert outcome.failed is False and outcome.share == 0.5


def test_what_was_not_counted_fails_no_rule_and_is_said() -> None:
    for figure in FIGURES:
        outcome = Rule.parse(f"{figure} > 0").outcome({figure: None}, 10)
        assert outcome.failed is None and figure in outcome.sentence and "cannot tell" in outcome.sentence


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("label_errors", "'label_errors'"),
        ("label_errors > two", "'label_errors > two'"),
        ("> 2", "'> 2'"),
        ("leaks > 1e3", "'leaks > 1e3'"),
        ("label_error > 2", "Did you mean label_errors?"),
        ("speed > 2", "'speed'"),
        ("accuracy < 80", "Add the %"),
        ("label_errors > 200%", "got 200%"),
        ("", "''"),
    ],
)
def test_what_is_no_rule_is_quoted(text: str, quoted: str) -> None:
    with pytest.raises(InputError) as caught:
        Rule.parse(text)
    assert quoted in str(caught.value)
