"""`hardsight correlate`: scores and human data in, coefficients, tests and verdicts out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from hardsight.cli import app

if TYPE_CHECKING:
    from hardsight.agreement import Correlations
    from hardsight.agreement.reporting import Beside


@app.command()
def correlate(
    runs: list[Path] = typer.Argument(
        ..., metavar="RUN...", help="Runs, snapshots or tables of scores; several are compared side by side."
    ),
    human: Path = typer.Option(
        None, help="What people said: (n, c) counts or (n,) frequencies as .npy, or a .csv, .parquet or .json table."
    ),
    against: str = typer.Option(None, metavar="COLUMN", help="Instead of people, a numeric column, such as level."),
    hard: str = typer.Option(None, help="With --against: low or high, the end at which samples are hard. Default: high."),
    output: Path = typer.Option(None, "-o", "--output", help="Run directory to write: JSON, CSV, LaTeX and figures."),
    scores: str = typer.Option(
        None, help="Names with commas. Default: avh, angular_gap, confidence, loss, entropy and the norm."
    ),
    bins: str = typer.Option(None, help="Edges with commas. Default for a frequency: 0,0.2,0.4,0.6,0.8,1."),
    level: float = typer.Option(0.95, help="Level of all intervals."),
    replicates: int = typer.Option(1000, min=20, help="Times the images are drawn again for the paired bootstrap."),
    permutations: int = typer.Option(1000, min=20, help="Times two scores are swapped for the permutation test."),
    splits: int = typer.Option(100, min=1, help="Times the people are split into halves for the noise ceiling."),
    seed: int = typer.Option(0, help="Same seed, same numbers."),
    split: str = typer.Option(None, help="Only the samples of one split, such as test of a run of hardsight train."),
    limit: int = typer.Option(None, min=1, help="Only the first N samples."),
    allow_missing: bool = typer.Option(False, "--allow-missing", help="Use the ids that both sides have, where one has more."),
    class_names: Path = typer.Option(None, help="A text file with one class name per line, or a JSON list."),
    by: str = typer.Option(None, metavar="COLUMN", help="Also within each group that shares a value: label, level, ..."),
    superclasses: Path = typer.Option(None, metavar="CSV", help="Columns class,superclass: also for coarser classes."),
    passes: list[Path] = typer.Option([], help="Snapshots of several passes or members, or one .npy (passes, n, c)."),
    unseen: Path = typer.Option(None, metavar="SNAPSHOT", help="Inputs of unseen classes by the same model: AUROC."),
    epochs: bool = typer.Option(False, "--epochs", help="Also every epoch of the run's dynamics."),
    images: str = typer.Option(None, metavar="DATA", help="The images, as extract takes them, for thumbnails of disagreement."),
    top: int = typer.Option(12, min=0, help="Samples to show on which people and the model disagree most."),
) -> None:
    """Test whether scores agree with people: Tables 1, 2 and 6 to 9 of the AVH paper for your model.

    \b
    Example:
        hardsight correlate run --human counts.npy -o agreement
        hardsight correlate degraded --against level
    """
    from hardsight.agreement import correlate as run_correlate
    from hardsight.agreement.reporting import save
    from hardsight.errors import InputError
    from hardsight.files.checksums import sha256
    from hardsight.files.class_names import read_class_names
    from hardsight.files.run import Run
    from hardsight.screen import printable, progress_bar

    if human is None and against is None:
        raise InputError("give --human FILE with what people said, or --against COLUMN with a number to compare with.")
    edges = None if bins is None else _numbers(bins)
    arguments: dict[str, Any] = {
        "human": human, "against": against, "hard": hard, "scores": scores, "bins": edges, "level": level,
        "replicates": replicates, "permutations": permutations, "splits": splits, "seed": seed,
        "split": split, "limit": limit, "allow_missing": allow_missing,
        "class_names": None if class_names is None else read_class_names(class_names),
    }  # fmt: skip

    def begun() -> Run:
        told = {key: str(value) if isinstance(value, Path) else value for key, value in arguments.items()}
        told |= {"runs": [str(one) for one in runs], "by": by, "top": top, "epochs": epochs, "images": images}
        told |= {"superclasses": str(superclasses), "passes": [str(one) for one in passes], "unseen": str(unseen)}
        inputs = {str(path): sha256(path) for path in (human, superclasses) if path is not None and path.is_file()}
        return Run(output, "hardsight correlate", told, inputs)

    if output is not None and output.exists() and (not output.is_dir() or any(output.iterdir())):
        begun()  # what would be refused at the end is refused now
    with progress_bar("drawing images again") as progress:
        found = run_correlate(
            list(runs), **arguments, passes=list(passes) or None, epochs=_dynamics(runs) if epochs else None, progress=progress
        )
        coarse = run_correlate(list(runs), **arguments, superclasses=superclasses, progress=progress) if superclasses else None
    beside = _beside(found, coarse, unseen, by, images, top)
    _show(found, beside, top)
    if output is not None:
        run = begun()
        with run.only_writer():
            save(run, found, beside)
        print(f"wrote {printable(str(output))}: correlations.json, table1 and pairs as .csv and .tex, figures/")


def _numbers(text: str) -> list[float]:
    from hardsight.errors import InputError

    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise InputError(f"--bins must be numbers with commas, got {text!r}.") from error


def _dynamics(runs: list[Path]) -> dict[str, Any]:
    """Tables of all epochs of all runs, in order."""
    from hardsight.errors import InputError
    from hardsight.table import read_scores

    files = [(run, file) for run in runs for file in sorted((run / "dynamics").glob("epoch=*.parquet"))]
    if not files:
        raise InputError(f"--epochs: {runs[0]} has no dynamics/epoch=*.parquet; train with per-sample dynamics first.")
    found = {}
    for run, file in files:
        epoch = str(int(file.stem.partition("=")[2]))
        found[f"{run.name} {epoch}" if len(runs) > 1 else epoch] = read_scores(file)
    return found


def _beside(
    found: Correlations, coarse: Correlations | None, unseen: Path | None, by: str | None, images: str | None, top: int
) -> Beside:
    """What the data allows beside the coefficients."""
    from hardsight.agreement.disagreement import images_of
    from hardsight.agreement.reporting import Beside

    real = [one for one in found.main if "avh" in one.scores or "confidence" in one.scores]
    named = list(dict.fromkeys(one.model for one in real if one.model != "ensemble" or len(found.opened) == 1))
    with_snapshot = [model.name for model in found.opened if model.snapshot is not None and _has_logits(model.snapshot)]
    human = found.of().target.measure is not None
    disagreements = []
    if human and top:
        for name in named:
            one = found.of(name)
            score = next(score for score in ("avh", "confidence", *one.scores) if score in one.scores)
            disagreements.append((name, found.disagreement(score, name, top)))
    labeled = {model.name for model in found.opened if model.has("label") and (model.labels >= 0).sum() >= 8}
    return Beside(
        calibrations=[found.calibration(name) for name in named if name in with_snapshot and name in labeled] if human else [],
        disagreements=disagreements,
        open_set=[row for name in named for row in found.open_set(unseen, name).to_pylist()] if unseen else [],
        groups=[row for name in named for row in found.within(by, name).to_pylist()] if by else [],
        coarse=coarse,
        coarse_groups=[row for name in named for row in coarse.within("label", name).to_pylist()] if coarse else [],
        images=images_of(images, found.opened[0]) if disagreements else None,
    )


def _has_logits(snapshot: Any) -> bool:
    return snapshot.source.evidence != "features" or snapshot.head is not None


def _show(found: Correlations, beside: Beside, top: int) -> None:
    """What a person reads: per model its coefficients and comparisons, then the verdicts."""
    for one in found.agreements:
        _show_singles(found, one)
        if one.pairs:
            _show_pairs(found, one)
    if any(one.pairs for one in found.agreements):
        print(found.trust + "\n")
    _show_verdicts(found)
    _show_models(found)
    _show_beside(found, beside)
    for note in found.notes:
        print(f"note: {note}")


def _show_singles(found: Correlations, one: Any) -> None:
    from hardsight.screen import number, print_table, printable
    from hardsight.stats.answers import Ceiling

    print(f"{printable(one.model)} against {one.target.words}: n = {one.n}, hard where {one.target.hard}"
          + ("" if one.accuracy is None else f", accuracy {100 * one.accuracy:.2f} %"))  # fmt: skip
    for why, count in one.left_out.items():
        print(f"  left out: {count} {why}")
    ceiling = one.ceilings["spearman"]
    if isinstance(ceiling, Ceiling):
        other = one.ceilings["pearson"]
        print(
            f"noise ceiling: halves of the people correlate at {ceiling.split_half:.3f} Spearman, "
            f"{other.split_half:.3f} Pearson; no score can be expected above {ceiling.ceiling:.3f} and {other.ceiling:.3f}"
        )
    percent = f"{100 * found.options.level:g} %"
    by = "for people" if one.target.measure is not None else f"by {one.target.words}"
    rows = []
    for name in dict.fromkeys(row["score"] for row in one.singles):
        spearman, pearson, kendall = (one.single(name, kind) for kind in ("spearman", "pearson", "kendall"))
        if spearman["agreement"] is None:
            rows.append((name, "–", spearman["reason"], "–", "–", "–", "–", "–", "–"))
            continue
        rows.append((
            name, _signed(spearman["agreement"]), _interval(spearman, "bootstrap_low", "bootstrap_high"),
            _share(spearman), _signed(pearson["agreement"]), _interval(pearson, "bootstrap_low", "bootstrap_high"),
            _signed(kendall["agreement"]), number(spearman["fisher_z"]), _p(spearman["p"]),
        ))  # fmt: skip
    header = ("score", "Spearman", percent, "of ceiling", "Pearson", percent, "Kendall", "Fisher z", "p")
    print_table(header, rows, title=f"agreement: positive where hard by the score is hard {by}", words=1)
    parts = [part for part in dict.fromkeys(row["bin"] for row in one.singles) if part != "all"]
    if parts:
        of = {(row["score"], row["bin"]): row for row in one.singles if row["kind"] == "spearman"}
        first = next(iter(one.scores))
        body = [("samples", str(one.n), *(str(of[first, part]["n"]) for part in parts))]
        body += [(name, *(_signed(of[name, part]["agreement"]) for part in ("all", *parts))) for name in one.scores]
        print_table(("Spearman", "total", *parts), body, title="Table 1: in bins (closed below, open above, the last one closed)")
        missing = list(dict.fromkeys(row["reason"] for row in one.singles if row["reason"] and row["bin"] != "all"))
        for reason in missing[:3]:
            print(f"  – : {printable(reason)}")
        if len(missing) > 3:
            print(f"  – : and {len(missing) - 3} more reasons, in table1.csv")


def _show_pairs(found: Correlations, one: Any) -> None:
    from hardsight.screen import print_table

    rows = [row for row in found.pairs().to_pylist() if row["model"] == one.model and row["target"] == one.target.key]
    lead = "avh" if "avh" in one.scores else next(iter(one.scores))
    shown = [row for row in rows if lead in (row["first"], row["second"])]
    body = []
    for row in shown:
        tests = [_two(row[key]) for key in ("independent_z", "williams_t", "steiger_z", "meng_z")]
        body.append((
            f"{row['first']} – {row['second']}", row["kind"], _signed(row["r_first"]), _signed(row["r_second"]), *tests,
            f"[{_signed(row['trusted_low'])}, {_signed(row['trusted_high'])}]", _p(row["permutation_p"]), _p(row["holm_p"]),
            row["verdict"].removesuffix(" agrees more").replace("no difference shown", "neither"),
        ))  # fmt: skip
    header = (
        "scores",
        "kind",
        "first",
        "second",
        "indep. z",
        "Williams",
        "Steiger",
        "Meng",
        "difference",
        "permut. p",
        "Holm p",
        "",
    )
    more = f"; {len(rows) - len(shown)} other pairs in pairs.csv" if len(rows) > len(shown) else ""
    print_table(header, body, title=f"Tables 2 and 6 to 9: {lead} against each other score{more}", words=2)


def _show_verdicts(found: Correlations) -> None:
    from hardsight.screen import print_table

    targets = {one.target.key: one.target.words for one in found.main}
    rows = []
    for row in found.hypotheses().to_pylist():
        model = f"{row['model']}, {targets[row['target']]}" if len(targets) > 1 else row["model"]
        cells = (model, row["hypothesis"], row["statement"], row["verdict"], row["note"] or "")
        rows.append((*cells, _signed(row["effect"]), _interval(row, "low", "high")))
    title = "The paper's hypotheses" + (f", against {next(iter(targets.values()))}" if len(targets) == 1 else "")
    print_table(("model", "", "hypothesis", "verdict", "note", "effect", "interval"), rows, title=title, words=5)


def _show_models(found: Correlations) -> None:
    from hardsight.screen import number, print_table

    rows = found.models().to_pylist()
    if len({row["model"] for row in rows}) > 1:
        body = []
        for model in dict.fromkeys(row["model"] for row in rows):
            of = {row["score"]: row for row in rows if row["model"] == model}
            first = next(iter(of.values()))
            accuracy = "–" if first["accuracy"] is None else f"{100 * first['accuracy']:.2f} %"
            cells = [_signed(of[name]["agreement"]) if name in of else "–" for name in ("avh", "confidence", "norm_in_class")]
            cells += [_signed(of[name]["agreement"]) if name in of else "–" for name in ("passes_variance",)]
            body.append((model, accuracy, number(of["avh"]["mean"]) if "avh" in of else "–", *cells))
        header = ("model", "accuracy", "mean AVH", "AVH", "confidence", "norm in class", "variance over models")
        print_table(header, body, title="Models side by side (Observation 4): Spearman of each score")
    if found.epochs:
        of = {(row["model"], row["score"]): row for row in found.epochs}
        names = [name for name in ("avh", "confidence", "norm_in_class", "norm") if any(score == name for _, score in of)]
        body = [
            (epoch, number(next(row["n"] for (at, _), row in of.items() if at == epoch)))
            + tuple(_with_interval(of.get((epoch, name))) for name in names)
            for epoch in dict.fromkeys(row["model"] for row in found.epochs)
        ]
        print_table(("epoch", "n", *names), body, title="Epochs (Observation 3): Spearman of each score and its interval")


def _with_interval(row: dict[str, Any] | None) -> str:
    if row is None or row["agreement"] is None:
        return "–" if row is None else str(row["reason"])
    return f"{_signed(row['agreement'])} {_interval(row, 'low', 'high')}"


def _show_beside(found: Correlations, beside: Beside) -> None:
    from hardsight.screen import number, print_table

    for one in beside.calibrations:
        print(
            f"calibration of {one.model}: ECE {one.before.ece:.4f}, with temperature {one.temperature:.3f} {one.after.ece:.4f} "
            f"(fitted to {one.fitted_to}, judged on {one.judged_on} other samples)"
        )
        rows = [row for row in one.effects if row["kind"] != "kendall"]
        body = [
            (name, *(_signed(row[key]) for row in rows if row["score"] == name for key in ("before", "after")))
            for name in dict.fromkeys(row["score"] for row in rows)
        ]
        header = ("score", "Spearman", "with temperature", "Pearson", "with temperature")
        print_table(header, body, title="what the temperature does to each agreement")
    for model, parted in beside.disagreements:
        shares = ", ".join(f"{count} {words}" for words, count in parted.counts.items())
        print(f"{model}, easier and harder half by {parted.score}: {shares}")
        for words, rows in (("easy for people, hard for the model", parted.model_hard), ("the reverse", parted.people_hard)):
            body = [tuple(number(value) for key, value in row.items() if key != "row") for row in rows[:5]]
            if rows:
                print_table(tuple(key for key in rows[0] if key != "row"), body, title=words, words=3)
    if beside.open_set:
        body = [
            (row["model"], row["score"], number(row["auroc"]), f"[{number(row['low'])}, {number(row['high'])}]")
            for row in beside.open_set
        ]
        print_table(("model", "score", "AUROC", "interval"), body, title="Unseen classes: the chance to look harder", words=2)
    for title, rows in (("Within groups", beside.groups), ("Within superclasses", beside.coarse_groups)):
        if rows:
            names = list(dict.fromkeys(row["score"] for row in rows))
            of = {(row["model"], row["group"], row["score"]): row for row in rows}
            keys = list(dict.fromkeys((row["model"], row["group"], str(row["n"])) for row in rows))
            body = [(m, g, n, *(_signed(of[m, g, name]["agreement"]) for name in names)) for m, g, n in keys]
            print_table(("model", "group", "n", *names), body, title=f"{title}: Spearman", words=2)
    if beside.coarse is not None:
        print("the same for superclasses:")
        for coarse in beside.coarse.main:
            _show_singles(beside.coarse, coarse)


def _signed(value: Any) -> str:
    return "–" if value is None else f"{value:+.3f}"


def _two(value: Any) -> str:
    return "–" if value is None else f"{value:+.2f}"


def _interval(row: dict[str, Any], low: str, high: str) -> str:
    return "–" if row[low] is None else f"[{_signed(row[low])}, {_signed(row[high])}]"


def _share(row: dict[str, Any]) -> str:
    return "–" if row["share_of_ceiling"] is None else f"{100 * row['share_of_ceiling']:.0f} %"


def _p(value: Any) -> str:
    if value is None:
        return "–"
    return "<1e-5" if value < 1e-5 else f"{value:.2g}"
