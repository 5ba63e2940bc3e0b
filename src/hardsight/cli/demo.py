"""`hardsight demo`: the main job on built-in digits. Next: demo.py."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import typer

from hardsight.cli import command
from hardsight.options import Options, common


@dataclass(frozen=True)
class DemoSettings(Options):
    """Options of the demo."""

    seed: int = common("seed")


@command(DemoSettings, figures=True)
def demo(
    settings: DemoSettings,
    output: str = typer.Option("hardsight-demo", "-o", "--output", metavar="RUN", help="Run directory to write."),
) -> None:
    """Try it on built-in digits: train, score, clean, adapt.

    Trains a small CNN, scores held-out images, finds wrong labels, adapts to low contrast, and writes a report.

    \b
    Example:
        hardsight demo -o hardsight-demo
    """
    from hardsight.demo import against_degradation, before_and_after, found_errors, predicted_people, run_demo
    from hardsight.render.showing import show
    from hardsight.screen import Cell, interval, number, percent, print_line, print_table, progress_bar

    with progress_bar("training") as progress:
        scores = run_demo(output, seed=settings.seed, progress=progress)
    show(scores)
    rows = []
    for agreement in against_degradation(Path(output)).agreements:
        for name in agreement.scores:
            row = agreement.single(name)
            bounds = interval(row["bootstrap_low"], row["bootstrap_high"])
            rows.append((agreement.target.words, name, number(row["agreement"], "+.3f"), bounds))
    title = "Spearman: positive where more degraded is harder"
    print_table(("against", "score", "agreement", Cell("95 %", "agreement")), rows, title=title, words=2, name="degradation")
    learned = predicted_people(Path(output), settings.seed)
    print_line(
        f"made-up people answer about {learned['answered']} digits: hardsight people predicts the other {learned['predicted']} "
        f"at Spearman {learned['agreement']:.2f}, {learned['without_answers']:.2f} without answers",
        people=learned,
    )
    errors = found_errors(Path(output))
    flagged = f"hardsight clean flags {errors['flagged']}, {errors['right']} of them correctly"
    precision, recall = (percent(errors[name], digits=1) for name in ("precision", "recall"))
    made = f"{errors['wrong']} of {errors['samples']} labels changed"
    print_line(f"{made}: {flagged} (precision {precision} %, recall {recall} %)", **errors)
    before, after = before_and_after(Path(output))
    right, adapted = percent(before, digits=1), percent(after, digits=1)
    shares = {"accuracy_before": before, "accuracy_after": after}
    print_line(f"accuracy at a fifth of the contrast: {right} %; {adapted} % after self-training without labels", **shares)
    print_line(f"run:     {output}")
    print_line(f"scores:  {Path(output, 'scores.parquet')}   (opens in pandas, Polars, DuckDB)")
    print_line(f"figures: {Path(output, 'figures', 'contrast.png')}, and noise.png next to it")
    print_line(f"clean:   hardsight explore {Path(output, 'clean')}   (the suspects, to review)")
    print_line(f"adapt:   {Path(output, 'adapt', 'report.html')}   (the self-training, round by round)")
    print_line(f"next:    hardsight explore {output}, or {Path(output, 'adapt')}")
    print_line(f"report:  {Path(output, 'report.html')}   (one file: open it in a browser, or send it)")
