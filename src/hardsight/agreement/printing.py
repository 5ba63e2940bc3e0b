"""A study on the screen: the models side by side and the verdicts first; every table of it with `verbose`."""

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

SIDE_BY_SIDE = {
    "avh": "AVH", "angular_gap": "angular gap", "confidence": "confidence", "norm_in_class": "norm in class",
    "passes_variance": "variance over models",
}  # fmt: skip
MOST_REASONS = 3  # on the screen; all are in table1.csv
MOST_CASES = 5  # of each kind of disagreement


def print_study(study: Study, verbose: bool = False) -> None:
    """Print what a person reads first: one table of all models, the verdicts, what an option asked for, and the notes.

    With `verbose`, also every coefficient, bin, pair and sample that these are made of.
    """
    correlations = study.correlations
    _print_overview(correlations)
    _print_verdicts(correlations)
    _print_epochs(correlations)
    _print_open_set(study.open_set)
    _print_groups("Within groups", study.groups)
    if study.coarse is not None:
        print("the same for superclasses:")
        _print_overview(study.coarse)
        _print_groups("Within superclasses", study.coarse_groups)
    if verbose:
        _print_details(study)
    for note in correlations.notes:
        print(f"note: {printable(note)}")


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
        if several or agreement.target.key == "entropy":  # else it is the overview
            _print_singles(agreement, correlations.settings.level)
        _print_bins(agreement)
        if agreement.pairs:
            _print_pairs(correlations, agreement)
    if any(agreement.pairs for agreement in correlations.agreements):
        print(correlations.trust + "\n")
    for calibration in study.calibrations:
        _print_calibration(calibration)
    for disagreement in study.disagreements:
        _print_disagreement(disagreement)
    for agreement in study.coarse.main if study.coarse is not None else ():
        print(f"{printable(agreement.model)}, superclasses:")
        _print_bins(agreement)


def _print_singles(agreement: Agreement, level: float) -> None:
    """What is compared, how well people agree among themselves, and each score over all samples."""
    target = agreement.target
    accuracy = "" if agreement.accuracy is None else f", accuracy {100 * agreement.accuracy:.2f} %"
    print(f"{printable(agreement.model)} against {target.words}: n = {agreement.n}, hard where {target.hard}{accuracy}")
    for why, count in agreement.left_out.items():
        print(f"  left out: {count} {why}")
    _print_ceiling(agreement)
    percent = f"{100 * level:g} %"
    header = ("score", "Spearman", percent, "of ceiling", "Pearson", percent, "Kendall", "Fisher z", "p")
    rows = [_single_cells(agreement, name) for name in dict.fromkeys(row["score"] for row in agreement.singles)]
    print_table(header, rows, title=_sign_in_words(agreement), words=1)


def _sign_in_words(agreement: Agreement) -> str:
    by = "for people" if agreement.target.measure is not None else f"by {agreement.target.words}"
    return f"agreement: positive where hard by the score is hard {by}"


def _print_ceiling(agreement: Agreement) -> None:
    """How well people agree among themselves, where that is known."""
    spearman, pearson = agreement.ceilings["spearman"], agreement.ceilings["pearson"]
    if isinstance(spearman, Ceiling) and isinstance(pearson, Ceiling):
        print(
            f"noise ceiling: halves of the people correlate at {spearman.split_half:.3f} Spearman, {pearson.split_half:.3f} "
            f"Pearson; no score can be expected above {spearman.ceiling:.3f} and {pearson.ceiling:.3f}"
        )


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
    """Several models side by side, for each target."""
    everything = correlations.models().to_pylist()
    for target in dict.fromkeys(row["target"] for row in everything):
        first = next(agreement for agreement in correlations.main if agreement.target.key == target)
        by_model: dict[str, dict[str, Row]] = {}
        for row in everything:
            if row["target"] == target:
                by_model.setdefault(row["model"], {})[row["score"]] = row
        print(f"{len(by_model.keys() - {'ensemble'})} models against {first.target.words}: hard where {first.target.hard}")
        _print_ceiling(first)
        computed = dict.fromkeys(name for scores in by_model.values() for name in scores)
        names = [name for name in SIDE_BY_SIDE if name in computed] or list(computed)
        rows = []
        for model, scores in by_model.items():
            known = next(iter(scores.values()))
            accuracy = "–" if known["accuracy"] is None else f"{100 * known['accuracy']:.2f} %"
            cells = [_signed(scores.get(name, {}).get("agreement")) for name in names]
            rows.append((model, str(known["n"]), accuracy, number(scores.get("avh", {}).get("mean")), *cells))
        header = ("model", "n", "accuracy", "mean AVH", *(SIDE_BY_SIDE.get(name, name) for name in names))
        print_table(header, rows, title=f"Models side by side (Observation 4), Spearman; {_sign_in_words(first)}")


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
    counts = "; ".join(f"{count} {quadrant}" for quadrant, count in disagreement.counts.items())
    print(f"{printable(disagreement.model)}: {counts}\n{disagreement.rule}")
    for title, cases in disagreement.cases.items():
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
