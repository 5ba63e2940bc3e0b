"""Verdicts: a claim is judged by its effect, the effect's 95 % interval, and the smallest effect worth having.

    holds            the interval lies above 0, and an effect worth having lies in it or below it
    does not hold    the interval lies below the smallest effect worth having: so large an effect is ruled out
    inconclusive     the interval allows for no effect and for one worth having; or there is no interval at all
    not comparable   what was run is not what the sentence is about

The smallest effects are set by the kind of quantity, not by claim. They were set after most recipes had first been run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, isfinite, sqrt
from typing import Literal

Verdict = Literal["holds", "does not hold", "inconclusive", "not comparable"]
VERDICTS: tuple[Verdict, ...] = ("holds", "does not hold", "inconclusive", "not comparable")

POINTS = 0.5  # of accuracy or error
DIGIT_POINTS = 0.1  # of the error on clean MNIST, where printed differences are of 0.1 to 0.3
CORRELATION = 0.1  # of one coefficient, which is what is usually called a small correlation
DIFFERENCE = 0.01  # of two coefficients, of two AUROC, of two AVH
SHARE = 0.05  # of samples, of epochs, of a curve's range
FITTED = 0.9  # of its training images that a network must have right before it can refute anything
MANY = 1_000_000  # samples or seeds: more would not be drawn


@dataclass(frozen=True)
class Effect:
    """An estimate with its 95 % interval, larger where the claim is truer.

    Args:
        estimate: the effect.
        low, high: its interval.
        smallest: the smallest effect worth having; a negative one is a tolerance, for claims such as "not worse than".
        name: of what: a network, a pair of domains.
        n: how many seeds or samples the interval is made from.
        unit: what they are.
        within: the claim is that there is no effect: none as large as `smallest`, in either direction.

    Example:
        >>> Effect(1.6, 0.1, 3.0, 0.5).verdict, Effect(0.1, -4.1, 4.4, 0.5).verdict, Effect(-1.9, -2.8, 0.4, 0.5).verdict
        ('holds', 'inconclusive', 'does not hold')
    """

    estimate: float
    low: float
    high: float
    smallest: float
    name: str = ""
    n: int | None = None
    unit: str = "seeds"
    within: bool = False

    @property
    def verdict(self) -> Verdict:
        """What this effect alone says; an interval that is not known says nothing."""
        if not (isfinite(self.low) and isfinite(self.high)):
            return "inconclusive"
        if self.within:
            apart = max(self.low, -self.high)  # how far the interval lies from 0
            outside = "does not hold" if apart > self.smallest else "inconclusive"
            return "holds" if max(-self.low, self.high) < self.smallest else outside  # type: ignore[return-value]
        if self.high < self.smallest:
            return "does not hold"
        return "holds" if self.low > min(self.smallest, 0.0) else "inconclusive"

    @property
    def enough(self) -> int | None:
        """How many seeds or samples would settle it if the estimate is right; None where no number would."""
        if self.n is None or self.n < 2 or self.verdict != "inconclusive" or not isfinite(self.high - self.low):
            return None
        below, above = self.estimate - self.low, self.high - self.estimate  # which shrink with the root of n
        if self.within:
            sides = [(max(below, above), abs(abs(self.estimate) - self.smallest))]
        else:
            sides = [(below, self.estimate - min(self.smallest, 0.0)), (above, self.smallest - self.estimate)]
        counts = [_shrunk(self.n, width, wanted) for width, wanted in sides if wanted > 0]
        return min((count for count in counts if count is not None), default=None)


def _shrunk(n: int, width: float, wanted: float) -> int | None:
    """The least number of samples that takes a side of Student's interval from its width with n of them to less than wanted."""
    from scipy.stats import t

    deviation = width * sqrt(n) / t.ppf(0.975, n - 1)
    if (first := ceil((1.96 * deviation / wanted) ** 2)) > MANY:
        return None
    return next(k for k in range(max(first, 2), MANY + 100) if t.ppf(0.975, k - 1) * deviation / sqrt(k) < wanted)


def over(
    limit: float, estimate: float, low: float, high: float, smallest: float = 0.0, name: str = "", n: int | None = None
) -> Effect:
    """By how much an estimate from n images lies over a limit.

    Example:
        >>> over(0.5, 0.75, 0.5, 1.0).low
        0.0
    """
    return Effect(estimate - limit, low - limit, high - limit, smallest, name, n, "images")


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, the rule that decides it, what was found, and the verdict.

    Args:
        text: the sentence.
        rule: what decides it.
        found: what was measured, in words.
        verdict: one of `VERDICTS`.
        effects: what the verdict follows from; empty for arithmetic and for what was observed once.
        post_hoc: whether the rule, or a part of it, was written after a first result had been seen.
    """

    text: str
    rule: str
    found: str
    verdict: Verdict
    effects: tuple[Effect, ...] = ()
    post_hoc: bool = False

    @property
    def deciding(self) -> Effect | None:
        """The effect that speaks most against the claim: the first with the claim's verdict."""
        return next((effect for effect in self.effects if effect.verdict == self.verdict), next(iter(self.effects), None))


def claim(
    text: str,
    *,
    rule: str,
    found: str,
    effects: Sequence[Effect] = (),
    holds: bool | None = None,
    exact: bool | None = None,
    some: bool = False,
    fitted: float | None = None,
    post_hoc: bool = False,
) -> Claim:
    """A claim with its verdict.

    Args:
        text, rule, found, post_hoc: as in `Claim`.
        effects: with these, all must hold; one that does not hold refutes the claim.
        holds: without effects, what was seen once. It may hold, but what has no interval does not refute: False is inconclusive.
        exact: arithmetic, an identity, a count of all there is: False refutes. With neither, the claim is not comparable.
        some: one of the effects is enough.
        fitted: the smallest share of their training images that the networks have right; below 0.9 they refute nothing.

    Example:
        >>> claim("2 + 2 is 4.", rule="Add.", exact=2 + 2 == 4, found="4.").verdict
        'holds'
        >>> claim("Norms grow.", rule="The last epoch's is the largest.", holds=False, found="9.1.").verdict
        'inconclusive'
    """
    verdict: Verdict = "not comparable"
    if effects:
        verdict = _of_all([effect.verdict for effect in effects], ("holds", "inconclusive", "does not hold") if some else ORDER)
    elif exact is not None:
        verdict = "holds" if exact else "does not hold"
    elif holds is not None:
        verdict = "holds" if holds else "inconclusive"
    if verdict == "does not hold" and fitted is not None and not fitted >= FITTED:
        verdict = "inconclusive"
        found += f" Only {100 * fitted:.0f} % of the training images are learned, too few to refute ({100 * FITTED:.0f} %)."
    return Claim(text, rule, found, verdict, tuple(effects), post_hoc)


ORDER: tuple[Verdict, ...] = ("does not hold", "inconclusive", "holds")


def _of_all(verdicts: Sequence[Verdict], order: Sequence[Verdict]) -> Verdict:
    return next(verdict for verdict in order if verdict in verdicts)


def what_is_missing(claim: Claim) -> str:
    """What would settle an inconclusive claim, in a few words; nothing for others.

    Example:
        >>> what_is_missing(Claim("", "", "", "inconclusive", (Effect(0.3, -0.5, 1.1, 0.5, n=5),)))
        'about 21 seeds would settle it'
    """
    if claim.verdict != "inconclusive":
        return ""
    open_effects = [effect for effect in claim.effects if effect.verdict == "inconclusive"]
    if not claim.effects or any(not isfinite(effect.low) for effect in open_effects):
        return "observed once, so without an interval: three seeds would give one"
    counts = [(effect.enough, effect.unit) for effect in open_effects if effect.n is not None]
    known = [(count, unit) for count, unit in counts if count is not None]
    if not known or len(known) < len(counts):
        return "the estimate lies where no number of seeds would settle it" if counts else ""
    count, unit = max(known)
    return f"about {count:,} {unit} would settle it"
