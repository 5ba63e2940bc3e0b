"""`hardsight attack`: inputs moved so that a model errs, and what gives them away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from hardsight.attacks.settings import AttackSettings
from hardsight.cli import command

if TYPE_CHECKING:
    from hardsight.attacks.attack import Attack
    from hardsight.screen import Cell


@command(AttackSettings, figures=True)
def attack(
    settings: AttackSettings,
    run: str = typer.Argument(
        ..., metavar="RUN", help="A run of hardsight train; of hardsight extract, with --model; or a model, with --data."
    ),
    output: str = typer.Option(
        ..., "-o", "--output", metavar="RUN", help="Run directory to write; an interrupted run is resumed."
    ),
) -> None:
    """Attack a model with FGSM or PGD, and test their detection.

    Reports the error by epsilon, the scores of attacked inputs, and how well attacks are detected by them.

    \b
    Example:
        hardsight attack run -o attacked
        hardsight attack run --methods fgsm,pgd --epsilon 2/255,8/255 --limit 1000 -o attacked
        hardsight attack timm:resnet18 --weights resnet18.safetensors --data photos/ --epsilon 8/255 -o attacked
    """
    from hardsight.attacks.attack import attack as attack_run
    from hardsight.screen import print_line, print_wrote, progress_bar

    with progress_bar("attacking") as progress:
        done = attack_run(run, output, settings=settings, progress=progress, say=print_line)
    print_attack(done)
    print_wrote(output, ": attack.parquet, epsilons.parquet, detection.parquet, trajectories.parquet, figures/")


def print_attack(done: Attack) -> None:
    """What `hardsight attack` says on the screen: an attack per line, detectors, and the paths."""
    from hardsight.screen import Cell, number, percent, print_line, print_table

    rows = []
    for row in done.by_epsilon.to_pylist():
        ends = {"": row["error"], "low": row["low"], "high": row["high"]}
        error = Cell(f"{percent(row['error'])} [{percent(row['low'])}, {percent(row['high'])}]", ends)
        means = [number(row[name]) for name in ("avh", "norm", "confidence", "likelihood", "score")]
        rows.append((row["method"], number(float(row["epsilon"])), error, *means))
    n, score, gaussians = (done.summary[name] for name in ("images", "score", "gaussians"))
    print_line(f"n = {n}   score: {score}   Gaussians of {gaussians}", **done.summary)
    print_table(
        ("attack", "epsilon", Cell("error % [95 %]", "error"), "avh", "norm", "confidence", "likelihood", "score"),
        rows,
        title="error, and medians of the scores",
        name="epsilons",
    )
    detection = done.detection.to_pylist()
    names = list(dict.fromkeys(row["detector"] for row in detection))
    areas: dict[tuple[str, Cell, str], dict[str, Cell]] = {}
    for row in detection:
        text = "–" if row["auroc"] is None else f"{row['auroc']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"
        value = Cell(text, {"": row["auroc"], "low": row["low"], "high": row["high"]})
        areas.setdefault((row["method"], number(float(row["epsilon"])), row["inputs"]), {})[row["detector"]] = value
    lines = [(*key, *(by_detector[name] for name in names)) for key, by_detector in areas.items()]
    title = "AUROC of attacked against clean inputs [95 %]"
    print_table(("attack", "epsilon", "inputs", *names), lines, title=title, words=3, name="detection")
    print_line(_paths(done))


def _paths(done: Attack) -> str:
    path = done.summary["trajectories"]
    if not path["switched"]:
        return f"paths: none of {path['followed']} samples changes class" if path["followed"] else "paths: none followed"
    return (
        f"paths: {path['switched']} of {path['followed']} samples change class; at that step the median norm is "
        f"{path['norm_at_switch']:.2f} of the clean one and the angle to the class {path['own_angle_at_switch']:.0f} degrees, "
        f"from {path['own_angle']:.0f}; {100 * path['shrink_first']:.0f} % shrink before they turn"
    )
