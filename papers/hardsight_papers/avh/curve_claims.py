"""What the AVH paper says of training curves, each sentence by a rule on mean curves over epochs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hardsight.dynamics import Curves, Groups, find_phases, plateau, read_curves, still_grows
from hardsight_papers.avh.trainings import WatchedTraining
from hardsight_papers.recipe import Claim, claim

BOUNCE = 0.02  # of the lowest AVH
REST = 0.1  # of the range over the whole training
JUMP = 2.0  # times the usual step
ENOUGH = 100  # samples in a level: a smaller one is joined to the next easier one
THROUGHOUT = 0.9  # of the epochs
JOINED = f"Levels of fewer than {ENOUGH} samples are joined to the next easier one."


@dataclass(frozen=True)
class Watched:
    """A training with its curves: of all samples that are in a level of hardness, and by level."""

    training: WatchedTraining
    whole: Curves
    levels: Curves

    def mean(self, name: str) -> np.ndarray:
        """(e,) the mean over the samples of all levels."""
        return self.whole.mean[name][0]

    def by_level(self, name: str) -> np.ndarray:
        """(g, e) the mean of each level, the hardest first; small levels are joined, see `ENOUGH`."""
        mean, count = self.levels.mean[name], self.levels.count
        return np.stack([(mean[part] * count[part]).sum(0) / count[part].sum(0) for part in joined(self.levels)])


def joined(levels: Curves) -> list[list[int]]:
    """The levels that have samples, the hardest first, joined until each part has enough."""
    parts: list[list[int]] = [[]]
    for level in levels.present():
        if sum(levels.count[k].min() for k in parts[-1]) >= ENOUGH:
            parts.append([])
        parts[-1].append(level)
    if len(parts) > 1 and sum(levels.count[k].min() for k in parts[-1]) < ENOUGH:
        parts[-2:] = [parts[-2] + parts[-1]]  # the easiest level is small
    return parts


def in_a_level(groups: Groups) -> Groups:
    """One group of all samples that are in a level: of a figure about contrast, no noisy copies."""
    return Groups("all", ["all samples"], lambda table: np.where(groups.of(table) >= 0, 0, -1), ordered=False)


def watched(trainings: Sequence[WatchedTraining]) -> list[Watched]:
    """Read the curves of each training."""
    runs = []
    for each in trainings:
        both = [read_curves(each.run, groups, split=each.split) for groups in (in_a_level(each.groups()), each.groups())]
        runs.append(Watched(each, *both))
    return runs


def norm_claims(runs: Sequence[Watched]) -> list[Claim]:
    """Observation 1."""
    norms = [run.mean("norm") for run in runs]
    rises = [np.diff(norm) > 0 for norm in norms]  # (e - 1,) each
    jumps = [_jump(run) for run in runs]
    similar = [_correlation(norm, run.mean("correct")) for norm, run in zip(norms, runs, strict=True)]
    claims = [
        claim(
            "The norm of features keeps increasing during training (observation 1).",
            rule="The mean norm rises in at least nine of ten steps from one epoch to the next.",
            holds=all(rise.mean() >= THROUGHOUT for rise in rises),
            post_hoc=True,
            found=_each(runs, [_course(norm, rise) for norm, rise in zip(norms, rises, strict=True)]),
        ),
        claim(
            "The norm climbs suddenly at the first drop of the learning rate.",
            rule=f"From the last epoch before the drop to the second after it, the norm rises by more than {JUMP:g} "
            "times what it rose or fell in the two epochs before.",
            holds=all(jump is not None and jump[0] > JUMP * abs(jump[1]) for jump in jumps),
            post_hoc=True,
            found=_each(runs, ["no such epochs" if jump is None else f"{jump[0]:+.3g} after {jump[1]:+.3g}" for jump in jumps]),
        ),
        claim(
            "The curve of accuracy resembles that of the norm.",
            rule="Pearson's correlation of the two curves over epochs is above 0.9.",
            holds=all(value > 0.9 for value in similar),
            found=_each(runs, [f"{value:+.2f}" for value in similar]),
        ),
    ]
    return [*claims, _equalized(runs)]


def _course(norm: np.ndarray, rise: np.ndarray) -> str:
    """Where a curve starts, turns and ends."""
    low, high = norm.argmin(), norm.argmax()
    ends = f"lowest {norm[low]:.3g} in epoch {low + 1}, highest {norm[high]:.3g} in epoch {high + 1}"
    return f"{norm[0]:.3g} to {norm[-1]:.3g}, {ends}; {rise.sum()} of {len(rise)} steps are rises"


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Pearson's; NaN where one of them never moves."""
    return float(np.corrcoef(a, b)[0, 1]) if np.ptp(a) > 0 and np.ptp(b) > 0 else float("nan")


def _jump(run: Watched) -> tuple[float, float] | None:
    """The rise of the norm over two epochs after the first drop, and over the two before it."""
    curve, drop = run.mean("norm"), run.training.drops[0] - 1  # index of the last epoch at the first rate
    if drop < 2 or drop + 2 >= len(curve):
        return None
    return float(curve[drop + 2] - curve[drop]), float(curve[drop] - curve[drop - 2])


def _equalized(runs: Sequence[Watched]) -> Claim:
    spread = {}
    for run in runs:
        last = run.by_level("norm")[:, -1]
        spread[run.training.network] = float(np.ptp(last) / last.mean())
    with_shortcuts = [spread[run.training.network] for run in runs if run.training.shortcuts]
    plain = [spread[run.training.network] for run in runs if not run.training.shortcuts]
    return claim(
        "Networks with shortcuts equalize the norm across levels of hardness, plain ones keep a gap.",
        rule="At the end, the largest difference of levels' mean norms, as a share of their mean, is smaller for every "
        f"network with shortcuts than for every plain one. {JOINED}",
        holds=max(with_shortcuts) < min(plain) if with_shortcuts and plain else None,
        found=", ".join(f"{name} {100 * value:.0f} %" for name, value in spread.items()) + ".",
    )


def avh_claims(runs: Sequence[Watched]) -> list[Claim]:
    """Observations 2 to 4."""
    flat = [plateau(run.mean("avh")) for run in runs]
    grows = [p.at is not None and still_grows(run.mean("correct"), p.at) for p, run in zip(flat, runs, strict=True)]
    said = [
        f"no plateau: {p.why_not}"
        if p.at is None
        else f"plateau from epoch {p.at + 1} of {len(run.mean('avh'))}, accuracy {_growth(run, p.at)}"
        for p, run in zip(flat, runs, strict=True)
    ]
    early = [p.at is not None and p.at <= len(run.mean("avh")) // 2 for p, run in zip(flat, runs, strict=True)]
    bounce = [float(run.mean("avh")[-1] / run.mean("avh").min() - 1) for run in runs]
    plain = [value for value, run in zip(bounce, runs, strict=True) if not run.training.shortcuts]
    return [
        claim(
            "AVH reaches a plateau early, while accuracy still grows (observation 2).",
            rule="AVH settles in the first half of training (within 10 % of its range of its last level), and accuracy "
            "rises after that by more than 5 % of its range.",
            holds=all(grows) and all(early),
            found=_each(runs, said),
        ),
        _stages(runs),
        claim(
            "AVH of plain networks bounces back before it converges.",
            rule=f"Mean AVH at the end is more than {100 * BOUNCE:.0f} % above its lowest, for plain networks.",
            holds=all(value > BOUNCE for value in plain) if plain else None,
            found=_each(runs, [f"{100 * value:+.1f} %" for value in bounce]),
        ),
        _gaps(runs),
        _better_is_lower(runs),
        *_phases(runs),
    ]


def _growth(run: Watched, at: int) -> str:
    accuracy = run.mean("correct")
    return f"from {100 * accuracy[at]:.1f} to {100 * accuracy[-1]:.1f} %"


def _stages(runs: Sequence[Watched]) -> Claim:
    """Within each stage of the learning rate, networks with shortcuts come to rest."""
    said, verdicts = [], []
    for run in runs:
        if not run.training.shortcuts:
            continue
        curve, ends = run.mean("avh"), [0, *run.training.drops, len(run.mean("avh"))]
        moved = [_moved(curve[start:stop], float(np.ptp(curve))) for start, stop in itertools.pairwise(ends)]
        verdicts.append(all(of_all <= REST and (of_stage <= 0.25 or of_all <= REST / 2) for of_stage, of_all in moved))
        said.append(f"{run.training.network} " + ", ".join(f"{100 * of_all:.0f} %" for _, of_all in moved))
    return claim(
        "Networks with shortcuts reach a plateau of AVH in all three stages of the learning rate.",
        rule=f"In the second half of each stage, mean AVH moves by at most {100 * REST:.0f} % of its range over all of training. "
        f"Asked in addition after the first result had been seen, since a straight line over 12 epochs would pass: by at most "
        f"a quarter of its movement in that stage, or {50 * REST:.0f} % of its range.",
        holds=all(verdicts) if verdicts else None,
        post_hoc=True,
        found="Movement, of the whole range: " + "; ".join(said) + "." if said else "No network with shortcuts here.",
    )


def _moved(stage: np.ndarray, whole: float) -> tuple[float, float]:
    """How far a curve moves in the second half of a stage, as shares of that in the whole stage and of its whole range."""
    later = float(np.ptp(stage[len(stage) // 2 :]))
    return later / max(float(np.ptp(stage)), 1e-12), later / max(whole, 1e-12)


def _gaps(runs: Sequence[Watched]) -> Claim:
    """Observation 3."""
    shares = []
    for run in runs:
        levels = run.by_level("avh")  # (g, e), the hardest first
        ordered = np.asarray((np.diff(levels, axis=0) <= 0).all(axis=0))  # (e,)
        shares.append((int(ordered.sum()), len(ordered)))
    return claim(
        "Levels of hardness keep their order by AVH through all of training, in every network (observation 3).",
        rule=f"In at least nine of ten epochs, mean AVH falls from each level to the next easier one. {JOINED}",
        holds=all(count >= THROUGHOUT * total for count, total in shares),
        found=_each(runs, [f"{count} of {total} epochs" for count, total in shares]),
    )


def _better_is_lower(runs: Sequence[Watched]) -> Claim:
    """Observation 4: throughout training, on average and in every level."""
    order = sorted(runs, key=lambda run: float(run.mean("correct")[-1]))
    curves = [np.vstack([run.mean("avh"), run.by_level("avh")]) for run in order]  # (1 + g, e) each
    comparable = len(order) > 1 and len({each.shape for each in curves}) == 1
    pairs = itertools.pairwise(curves) if comparable else ()
    lower = [np.asarray((after < before).all(0)) for before, after in pairs]  # (e,) each
    last = [", ".join(f"{value:.4f}" for value in run.by_level("avh")[:, -1]) for run in order]
    said = [f"{100 * run.mean('correct')[-1]:.1f} %: {values}" for run, values in zip(order, last, strict=True)]
    counted = ", ".join(f"{each.sum()} of {len(each)}" for each in lower)
    return claim(
        "Better models have lower AVH in every level of hardness, throughout training (observation 4).",
        rule="In at least nine of ten epochs, mean AVH of the network that is more accurate in the end is lower, over all "
        f"samples and in every level. {JOINED}",
        holds=all(each.mean() >= THROUGHOUT for each in lower) if comparable else None,
        found=_each(order, said) + (f" Lower in {counted} epochs; the numbers are those of the last." if comparable else ""),
    )


def _phases(runs: Sequence[Watched]) -> list[Claim]:
    """The conjecture of section 3.2."""
    phases = [find_phases(run.mean("own_angle"), run.mean("norm")) for run in runs]
    said = [f"boundary at epoch {p.at + 1}" if p.found and p.at is not None else p.why_not for p in phases]
    hard = [find_phases(run.by_level("own_angle")[0], run.by_level("norm")[0]) for run in runs]
    changes = [
        (1 - p.angle[2] / p.angle[0], p.norm[2] / p.norm[0] - 1) if p.angle[0] else (float("nan"), float("nan")) for p in hard
    ]
    easy = [run.by_level("own_angle")[-1] for run in runs]
    fall = [float(1 - curve[-1] / curve[0]) for curve in easy]
    rise = [float(run.by_level("norm")[-1][-1] / run.by_level("norm")[-1][0] - 1) for run in runs]
    asked = [f > 0 and r > 0 for f, r in zip(fall, rise, strict=True)]  # else there is nothing to fall short of
    less = [
        angle < 0.5 * easy_fall and norm < 0.5 * easy_rise
        for (angle, norm), easy_fall, easy_rise, ask in zip(changes, fall, rise, asked, strict=True)
        if ask
    ]
    moved = [
        f"angle {-100 * a:+.0f} % (easiest {-100 * f:+.0f} %), norm {100 * n:+.0f} % (easiest {100 * r:+.0f} %)"
        for (a, n), f, r in zip(changes, fall, rise, strict=True)
    ]
    return [
        claim(
            "Training has two phases: first the angles, later the norms (conjecture).",
            rule="The rule of hardsight.dynamics.phases: at some epoch three quarters of the fall of the angle and at "
            "most half of the rise of the norm are done.",
            holds=all(p.found for p in phases),
            found=_each(runs, said),
        ),
        claim(
            "For hard samples neither the angle falls nor the norm rises (clause of the conjecture).",
            rule="In the hardest level, the angle's relative fall and the norm's relative rise are both less than half "
            f"of those in the easiest, in every network. It is not asked where the easiest level's angle does not fall or its "
            f"norm does not rise. {JOINED}",
            holds=False if not all(less) else True if all(asked) else None,
            found=_each(runs, moved),
        ),
    ]


def _each(runs: Sequence[Watched], words: Sequence[str]) -> str:
    return "; ".join(f"{run.training.network}: {text}" for run, text in zip(runs, words, strict=True)) + "."
