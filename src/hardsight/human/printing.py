"""A study on the terminal: the models side by side and the verdicts first; every table with `verbose`."""

from __future__ import annotations

from typing import Any

from hardsight.human.calibration import Calibration
from hardsight.human.comparisons import Agreement
from hardsight.human.correlate import Correlations
from hardsight.human.disagreement import Disagreement
from hardsight.human.study import Study
from hardsight.human.tables import Row
from hardsight.screen import Cell, beside, interval, number, print_line, print_table
from hardsight.stats.answers import Ceiling

SIDE_BY_SIDE = {
    "avh": "AVH", "angular_gap": "angular gap", "confidence": "confidence", "norm_in_class": "norm in class",
    "passes_variance": "variance over models",
}  # fmt: skip
MOST_REASONS = 3  # to print; all are in table1.csv
MOST_CASES = 5  # of each kind of disagreement


def print_study(study: Study, verbose: bool = False) -> None:
    """Print the most important parts: one table of all models, the verdicts, what an option requested, and the notes.

    `verbose` adds every coefficient, bin, pair and sample behind them.
    """
    correlations = study.correlations
    _print_overview(correlations)
    _print_verdicts(correlations)
    _print_epochs(correlations)
    _print_open_set(study.open_set)
    _print_groups("Within groups", study.groups)
    if study.coarse is not None:
        print_line("the same for superclasses:")
        _print_overview(study.coarse)
        _print_groups("Within superclasses", study.coarse_groups)
    if verbose:
        _print_details(study)
    for note in correlations.notes:
        print_line(f"note: {note}", notes=correlations.notes)


def _print_overview(correlations: Correlations) -> None:
    """One model with all its scores, or several side by side."""
    if len({agreement.model for agreement in correlations.main}) > 1:
        _print_models(correlations)
        return
    for agreement in correlations.main:
        _print_singles(agreement, correlations.settings.level)


def _print_details(study: Study) -> None:
    """Every model with each target, then each model's calibration and disagreement with people."""
    correlations = study.correlations
    several = len({agreement.model for agreement in correlations.main}) > 1
    for agreement in correlations.agreements:
        if several or agreement.target.key == "entropy":  # otherwise the overview has it
            _print_singles(agreement, correlations.settings.level)
        _print_bins(agreement)
        if agreement.pairs:
            _print_pairs(correlations, agreement)
    if any(agreement.pairs for agreement in correlations.agreements):
        print_line(correlations.trust + "\n")
    for calibration in study.calibrations:
        _print_calibration(calibration)
    for disagreement in study.disagreements:
        _print_disagreement(disagreement)
    for agreement in study.coarse.main if study.coarse is not None else ():
        print_line(f"{agreement.model}, superclasses:")
        _print_bins(agreement)


def _print_singles(agreement: Agreement, level: float) -> None:
    """What is compared, how well people agree with each other, and each score over all samples."""
    target = agreement.target
    accuracy = "" if agreement.accuracy is None else f", accuracy {100 * agreement.accuracy:.2f} %"
    print_line(f"{agreement.model} against {target.words}: n = {agreement.n}, hard where {target.hard}{accuracy}")
    for why, count in agreement.left_out.items():
        print_line(f"  left out: {count} {why}")
    _print_ceiling(agreement)
    percent = f"{100 * level:g} %"
    header = (
        "score", Cell("Spearman", "spearman"), Cell(percent, "spearman"), Cell("of ceiling", "share_of_ceiling"),
        Cell("Pearson", "pearson"), Cell(percent, "pearson"), Cell("Kendall", "kendall"), Cell("Fisher z", "fisher_z"), "p",
    )  # fmt: skip
    rows = [_single_cells(agreement, name) for name in dict.fromkeys(row["score"] for row in agreement.singles)]
    print_table(header, rows, title=_sign_in_words(agreement), name="agreement", of=_of(agreement))


def _of(agreement: Agreement) -> Row:
    """The values shared by all rows of a table, for JSON."""
    return {"model": agreement.model, "target": agreement.target.key, "n": agreement.n}


def _sign_in_words(agreement: Agreement) -> str:
    return f"agreement: positive where hard by the score is hard {for_whom(agreement)}"


def for_whom(agreement: Agreement) -> str:
    """What the scores are compared with, after "hard"."""
    return "for people" if agreement.target.measure is not None else f"by {agreement.target.words}"


def _print_ceiling(agreement: Agreement) -> None:
    """How well people agree with each other, if known."""
    spearman, pearson = agreement.ceilings["spearman"], agreement.ceilings["pearson"]
    if isinstance(spearman, Ceiling) and isinstance(pearson, Ceiling):
        print_line(
            f"noise ceiling: halves of the people correlate at {spearman.split_half:.3f} Spearman, {pearson.split_half:.3f} "
            f"Pearson; no score can be expected above {spearman.ceiling:.3f} and {pearson.ceiling:.3f}"
        )


def _single_cells(agreement: Agreement, name: str) -> tuple[str, ...]:
    spearman, pearson, kendall = (agreement.single(name, kind) for kind in ("spearman", "pearson", "kendall"))
    if spearman["agreement"] is None:
        return (name, "–", Cell(spearman["reason"], {"reason": spearman["reason"]}), *["–"] * 6)
    share = _percent(spearman["share_of_ceiling"], 0)
    return (
        name, _signed(spearman["agreement"]), _interval(spearman, "bootstrap_"), share,
        _signed(pearson["agreement"]), _interval(pearson, "bootstrap_"),
        _signed(kendall["agreement"]), number(spearman["fisher_z"]), _p(spearman["p"]),
    )  # fmt: skip


def _print_bins(agreement: Agreement) -> None:
    """Table 1, if there are bins."""
    bins = [name for name in dict.fromkeys(row["bin"] for row in agreement.singles) if name != "all"]
    if not bins:
        return
    cells = {(row["score"], row["bin"]): row for row in agreement.singles if row["kind"] == "spearman"}
    first = next(iter(agreement.scores))
    rows = [("samples", number(agreement.n), *(number(cells[first, name]["n"]) for name in bins))]
    rows += [(score, *(_signed(cells[score, name]["agreement"]) for name in ("all", *bins))) for score in agreement.scores]
    header = (Cell("Spearman", "score"), "total", *(Cell(name, name) for name in bins))
    title = "Table 1: in bins (closed below, open above, the last one closed)"
    print_table(header, rows, title=title, name="bins", of=_of(agreement))
    reasons = list(dict.fromkeys(row["reason"] for row in agreement.singles if row["reason"] and row["bin"] != "all"))
    for reason in reasons[:MOST_REASONS]:
        print_line(f"  – : {reason}")
    if len(reasons) > MOST_REASONS:
        print_line(f"  – : and {len(reasons) - MOST_REASONS} more reasons, in table1.csv")


def _print_pairs(correlations: Correlations, agreement: Agreement) -> None:
    """The first score, usually AVH, against each other score."""
    pairs = correlations.pairs().to_pylist()
    pairs = [row for row in pairs if row["model"] == agreement.model and row["target"] == agreement.target.key]
    lead = "avh" if "avh" in agreement.scores else next(iter(agreement.scores))
    shown = [row for row in pairs if lead in (row["first"], row["second"])]
    rows = []
    for row in shown:
        tests = [_signed(row[key], 2) for key in ("independent_z", "williams_t", "steiger_z", "meng_z")]
        verdict = row["verdict"].removesuffix(" agrees more").replace("no difference shown", "neither")
        rows.append((
            f"{row['first']} – {row['second']}", row["kind"], _signed(row["r_first"]), _signed(row["r_second"]), *tests,
            _interval(row, "trusted_"), _p(row["permutation_p"]), _p(row["holm_p"]), verdict,
        ))  # fmt: skip
    tested = [Cell("indep. z", "independent_z"), "Williams", "Steiger", "Meng", "difference"]
    header = ("scores", "kind", "first", "second", *tested, Cell("permut. p", "permutation_p"), Cell("Holm p", "holm_p"))
    more = f"; {len(pairs) - len(shown)} other pairs in pairs.csv" if len(pairs) > len(shown) else ""
    title = f"Tables 2 and 6 to 9: {lead} against each other score{more}"
    print_table((*header, Cell("", "verdict")), rows, title=title, words=2, name="pairs", of=_of(agreement))


def _print_verdicts(correlations: Correlations) -> None:
    targets = {agreement.target.key: agreement.target.words for agreement in correlations.main}
    rows = []
    for row in correlations.hypotheses().to_pylist():
        model = f"{row['model']}, {targets[row['target']]}" if len(targets) > 1 else row["model"]
        cells = (model, row["hypothesis"], row["statement"], row["verdict"], row["note"] or "")
        rows.append((*cells, _signed(row["effect"]), _interval(row)))
    title = "The paper's hypotheses" + (f", against {next(iter(targets.values()))}" if len(targets) == 1 else "")
    header = ("model", Cell("", "id"), "hypothesis", "verdict", "note", "effect", Cell("interval", "effect"))
    print_table(header, rows, title=title, words=5, name="hypotheses")


def _print_models(correlations: Correlations) -> None:
    """Several models side by side, for each target."""
    everything = correlations.models().to_pylist()
    for target in dict.fromkeys(row["target"] for row in everything):
        first = next(agreement for agreement in correlations.main if agreement.target.key == target)
        by_model: dict[str, dict[str, Row]] = {}
        for row in everything:
            if row["target"] == target:
                by_model.setdefault(row["model"], {})[row["score"]] = row
        print_line(f"{len(by_model.keys() - {'ensemble'})} models against {first.target.words}: hard where {first.target.hard}")
        _print_ceiling(first)
        computed = dict.fromkeys(name for scores in by_model.values() for name in scores)
        names = [name for name in SIDE_BY_SIDE if name in computed] or list(computed)
        rows = []
        for model, scores in by_model.items():
            known = next(iter(scores.values()))
            accuracy = _percent(known["accuracy"])
            cells = [_signed(scores.get(name, {}).get("agreement")) for name in names]
            rows.append((model, number(known["n"]), accuracy, number(scores.get("avh", {}).get("mean")), *cells))
        header = ("model", "n", "accuracy", "mean AVH", *(Cell(SIDE_BY_SIDE.get(name, name), name) for name in names))
        title = f"Models side by side (Observation 4), Spearman; {_sign_in_words(first)}"
        print_table(header, rows, title=title, name="models", of={"target": target})


def _print_epochs(correlations: Correlations) -> None:
    if not correlations.epochs:
        return
    by_epoch: dict[str, dict[str, Row]] = {}
    for row in correlations.epochs:
        by_epoch.setdefault(row["model"], {})[row["score"]] = row
    computed = {row["score"] for row in correlations.epochs}
    names = [name for name in ("avh", "confidence", "norm_in_class", "norm") if name in computed]
    rows = []
    for epoch, scores in by_epoch.items():
        n = number(next(iter(scores.values()))["n"])
        rows.append((epoch, n, *(_with_interval(scores.get(name)) for name in names)))
    title = "Epochs (Observation 3): Spearman of each score and its interval"
    print_table(("epoch", "n", *names), rows, title=title, name="epochs")


def _print_calibration(calibration: Calibration) -> None:
    print_line(
        f"calibration of {calibration.model}: ECE {calibration.before.ece:.4f}, "
        f"with temperature {calibration.temperature:.3f} {calibration.after.ece:.4f} "
        f"(fitted to {calibration.fitted_to}, judged on {calibration.judged_on} other samples)"
    )
    effects = [row for row in calibration.effects if row["kind"] != "kendall"]
    rows = [
        (name, *(_signed(row[key]) for row in effects if row["score"] == name for key in ("before", "after")))
        for name in dict.fromkeys(row["score"] for row in effects)
    ]
    header = (
        "score", Cell("Spearman", "spearman"), Cell("with temperature", "spearman_calibrated"),
        Cell("Pearson", "pearson"), Cell("with temperature", "pearson_calibrated"),
    )  # fmt: skip
    title = "what the temperature does to each agreement"
    print_table(header, rows, title=title, name="calibration", of={"model": calibration.model})


def _print_disagreement(disagreement: Disagreement) -> None:
    counts = "; ".join(f"{count} {quadrant}" for quadrant, count in disagreement.counts.items())
    print_line(f"{disagreement.model}: {counts}\n{disagreement.rule}")
    for title, cases in disagreement.cases.items():
        if cases:
            columns = [key for key in cases[0] if key != "row"]
            rows = [tuple(number(case[key]) for key in columns) for case in cases[:MOST_CASES]]
            of = {"model": disagreement.model, "quadrant": title}
            print_table(columns, rows, title=title, words=3, name="disagreement", of=of)


def _print_open_set(areas: list[Row]) -> None:
    if areas:
        rows = [
            (row["model"], row["score"], number(row["auroc"]),
             Cell(f"[{number(row['low'])}, {number(row['high'])}]", {"low": row["low"], "high": row["high"]}))
            for row in areas
        ]  # fmt: skip
        header = ("model", "score", Cell("AUROC", "auroc"), Cell("interval", "auroc"))
        print_table(header, rows, title="Unseen classes: the chance to look harder", words=2, name="open_set")


def _print_groups(title: str, groups: list[Row]) -> None:
    if groups:
        names = list(dict.fromkeys(row["score"] for row in groups))
        cells = {(row["model"], row["group"], row["score"]): row for row in groups}
        keys = dict.fromkeys((row["model"], row["group"], row["n"]) for row in groups)
        rows = [
            (model, group, number(n), *(_signed(cells.get((model, group, name), {}).get("agreement")) for name in names))
            for model, group, n in keys
        ]
        name = "superclasses" if "superclass" in title else "groups"
        print_table(("model", "group", "n", *names), rows, title=f"{title}: Spearman", words=2, name=name)


def _signed(value: float | None, digits: int = 3) -> Cell:
    return number(value, f"+.{digits}f")


def _percent(share: float | None, digits: int = 2) -> Cell:
    return Cell("–" if share is None else f"{100 * share:.{digits}f} %", share)


def _interval(row: Row, prefix: str = "") -> Cell:
    return interval(row[f"{prefix}low"], row[f"{prefix}high"])


def _with_interval(row: Row | None) -> Cell:
    if row is None or row["agreement"] is None:
        return Cell("–" if row is None else str(row["reason"]), None)
    return beside(_signed(row["agreement"]), _interval(row))


def _p(value: Any) -> Cell:
    return Cell("<1e-5", value) if value is not None and value < 1e-5 else number(value, ".2g")
