"""A study on the screen: per model its coefficients and comparisons, then the verdicts and what else was computed."""

from __future__ import annotations

from typing import Any

from hardsight.agreement.calibrated import Calibration
from hardsight.agreement.comparing import Agreement
from hardsight.agreement.correlations import Correlations
from hardsight.agreement.disagreement import Disagreement
from hardsight.agreement.studying import Study
from hardsight.agreement.tables import Row
from hardsight.screen import interval, number, print_table, printable
from hardsight.stats.answers import Ceiling

MOST_REASONS = 3  # on the screen; all are in table1.csv
MOST_CASES = 5  # of each kind of disagreement


def print_study(study: Study) -> None:
    """Print everything that a person reads."""
    correlations = study.correlations
    for agreement in correlations.agreements:
        _print_singles(agreement, correlations.settings.level)
        _print_bins(agreement)
        if agreement.pairs:
            _print_pairs(correlations, agreement)
    if any(agreement.pairs for agreement in correlations.agreements):
        print(correlations.trust + "\n")
    _print_verdicts(correlations)
    _print_models(correlations)
    _print_epochs(correlations)
    for calibration in study.calibrations:
        _print_calibration(calibration)
    for disagreement in study.disagreements:
        _print_disagreement(disagreement)
    _print_open_set(study.open_set)
    _print_groups("Within groups", study.groups)
    _print_groups("Within superclasses", study.coarse_groups)
    if study.coarse is not None:
        print("the same for superclasses:")
        for agreement in study.coarse.main:
            _print_singles(agreement, study.coarse.settings.level)
            _print_bins(agreement)
    for note in correlations.notes:
        print(f"note: {note}")


def _print_singles(agreement: Agreement, level: float) -> None:
    """What is compared, how well people agree among themselves, and each score over all samples."""
    target = agreement.target
    accuracy = "" if agreement.accuracy is None else f", accuracy {100 * agreement.accuracy:.2f} %"
    print(f"{printable(agreement.model)} against {target.words}: n = {agreement.n}, hard where {target.hard}{accuracy}")
    for why, count in agreement.left_out.items():
        print(f"  left out: {count} {why}")
    spearman, pearson = agreement.ceilings["spearman"], agreement.ceilings["pearson"]
    if isinstance(spearman, Ceiling) and isinstance(pearson, Ceiling):
        print(
            f"noise ceiling: halves of the people correlate at {spearman.split_half:.3f} Spearman, {pearson.split_half:.3f} "
            f"Pearson; no score can be expected above {spearman.ceiling:.3f} and {pearson.ceiling:.3f}"
        )
    percent = f"{100 * level:g} %"
    header = ("score", "Spearman", percent, "of ceiling", "Pearson", percent, "Kendall", "Fisher z", "p")
    rows = [_single_cells(agreement, name) for name in dict.fromkeys(row["score"] for row in agreement.singles)]
    by = "for people" if target.measure is not None else f"by {target.words}"
    print_table(header, rows, title=f"agreement: positive where hard by the score is hard {by}", words=1)


def _single_cells(agreement: Agreement, name: str) -> tuple[str, ...]:
    spearman, pearson, kendall = (agreement.single(name, kind) for kind in ("spearman", "pearson", "kendall"))
    if spearman["agreement"] is None:
        return (name, "–", spearman["reason"], *["–"] * 6)
    share = "–" if spearman["share_of_ceiling"] is None else f"{100 * spearman['share_of_ceiling']:.0f} %"
    return (
        name, _signed(spearman["agreement"]), _interval(spearman, "bootstrap_"), share,
        _signed(pearson["agreement"]), _interval(pearson, "bootstrap_"),
        _signed(kendall["agreement"]), number(spearman["fisher_z"]), _p(spearman["p"]),
    )  # fmt: skip


def _print_bins(agreement: Agreement) -> None:
    """Table 1, where there are bins."""
    bins = [name for name in dict.fromkeys(row["bin"] for row in agreement.singles) if name != "all"]
    if not bins:
        return
    cells = {(row["score"], row["bin"]): row for row in agreement.singles if row["kind"] == "spearman"}
    first = next(iter(agreement.scores))
    rows = [("samples", str(agreement.n), *(str(cells[first, name]["n"]) for name in bins))]
    rows += [(score, *(_signed(cells[score, name]["agreement"]) for name in ("all", *bins))) for score in agreement.scores]
    print_table(("Spearman", "total", *bins), rows, title="Table 1: in bins (closed below, open above, the last one closed)")
    reasons = list(dict.fromkeys(row["reason"] for row in agreement.singles if row["reason"] and row["bin"] != "all"))
    for reason in reasons[:MOST_REASONS]:
        print(f"  – : {printable(reason)}")
    if len(reasons) > MOST_REASONS:
        print(f"  – : and {len(reasons) - MOST_REASONS} more reasons, in table1.csv")


def _print_pairs(correlations: Correlations, agreement: Agreement) -> None:
    """The first score, AVH as a rule, against each other one."""
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
    header = ("scores", "kind", "first", "second", "indep. z", "Williams", "Steiger", "Meng", "difference", "permut. p", "Holm p")
    more = f"; {len(pairs) - len(shown)} other pairs in pairs.csv" if len(pairs) > len(shown) else ""
    print_table((*header, ""), rows, title=f"Tables 2 and 6 to 9: {lead} against each other score{more}", words=2)


def _print_verdicts(correlations: Correlations) -> None:
    targets = {agreement.target.key: agreement.target.words for agreement in correlations.main}
    rows = []
    for row in correlations.hypotheses().to_pylist():
        model = f"{row['model']}, {targets[row['target']]}" if len(targets) > 1 else row["model"]
        cells = (model, row["hypothesis"], row["statement"], row["verdict"], row["note"] or "")
        rows.append((*cells, _signed(row["effect"]), _interval(row)))
    title = "The paper's hypotheses" + (f", against {next(iter(targets.values()))}" if len(targets) == 1 else "")
    print_table(("model", "", "hypothesis", "verdict", "note", "effect", "interval"), rows, title=title, words=5)


def _print_models(correlations: Correlations) -> None:
    """Several models side by side."""
    by_model: dict[str, dict[str, Row]] = {}
    for row in correlations.models().to_pylist():
        by_model.setdefault(row["model"], {})[row["score"]] = row
    if len(by_model) < 2:
        return
    rows = []
    for model, scores in by_model.items():
        accuracy = next(iter(scores.values()))["accuracy"]
        cells = ["–" if accuracy is None else f"{100 * accuracy:.2f} %", number(scores.get("avh", {}).get("mean"))]
        cells += [
            _signed(scores.get(name, {}).get("agreement")) for name in ("avh", "confidence", "norm_in_class", "passes_variance")
        ]
        rows.append((model, *cells))
    header = ("model", "accuracy", "mean AVH", "AVH", "confidence", "norm in class", "variance over models")
    print_table(header, rows, title="Models side by side (Observation 4): Spearman of each score")


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
    print_table(("epoch", "n", *names), rows, title="Epochs (Observation 3): Spearman of each score and its interval")


def _print_calibration(calibration: Calibration) -> None:
    print(
        f"calibration of {printable(calibration.model)}: ECE {calibration.before.ece:.4f}, "
        f"with temperature {calibration.temperature:.3f} {calibration.after.ece:.4f} "
        f"(fitted to {calibration.fitted_to}, judged on {calibration.judged_on} other samples)"
    )
    effects = [row for row in calibration.effects if row["kind"] != "kendall"]
    rows = [
        (name, *(_signed(row[key]) for row in effects if row["score"] == name for key in ("before", "after")))
        for name in dict.fromkeys(row["score"] for row in effects)
    ]
    header = ("score", "Spearman", "with temperature", "Pearson", "with temperature")
    print_table(header, rows, title="what the temperature does to each agreement")


def _print_disagreement(disagreement: Disagreement) -> None:
    counts = ", ".join(f"{count} {quadrant}" for quadrant, count in disagreement.counts.items())
    print(f"{printable(disagreement.model)}, easier and harder half by {disagreement.score}: {counts}")
    for title, cases in (
        ("easy for people, hard for the model", disagreement.model_hard),
        ("the reverse", disagreement.people_hard),
    ):
        if cases:
            columns = [key for key in cases[0] if key != "row"]
            rows = [tuple(number(case[key]) for key in columns) for case in cases[:MOST_CASES]]
            print_table(columns, rows, title=title, words=3)


def _print_open_set(areas: list[Row]) -> None:
    if areas:
        rows = [
            (row["model"], row["score"], number(row["auroc"]), f"[{number(row['low'])}, {number(row['high'])}]") for row in areas
        ]
        print_table(("model", "score", "AUROC", "interval"), rows, title="Unseen classes: the chance to look harder", words=2)


def _print_groups(title: str, groups: list[Row]) -> None:
    if groups:
        names = list(dict.fromkeys(row["score"] for row in groups))
        cells = {(row["model"], row["group"], row["score"]): row for row in groups}
        keys = dict.fromkeys((row["model"], row["group"], str(row["n"])) for row in groups)
        rows = [
            (model, group, n, *(_signed(cells[model, group, name]["agreement"]) for name in names)) for model, group, n in keys
        ]
        print_table(("model", "group", "n", *names), rows, title=f"{title}: Spearman", words=2)


def _signed(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:+.{digits}f}"


def _interval(row: Row, prefix: str = "") -> str:
    return interval(row[f"{prefix}low"], row[f"{prefix}high"])


def _with_interval(row: Row | None) -> str:
    if row is None or row["agreement"] is None:
        return "–" if row is None else str(row["reason"])
    return f"{_signed(row['agreement'])} {_interval(row)}"


def _p(value: Any) -> str:
    if value is None:
        return "–"
    return "<1e-5" if value < 1e-5 else f"{value:.2g}"
