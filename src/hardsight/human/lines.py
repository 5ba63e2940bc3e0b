"""What is said of `Correlations`: the models side by side and the verdicts first; every table in detail after them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hardsight.human.calibration import Calibration
from hardsight.human.comparisons import Agreement, Row
from hardsight.human.correlations import TRUST, Correlations
from hardsight.human.disagreement import Disagreement
from hardsight.screen import Cell, Sentence, ShownTable, beside, interval, line, number
from hardsight.stats.answers import Ceiling

Lines = Iterator[Sentence | ShownTable]
SIDE_BY_SIDE = {
    "avh": "AVH", "angular_gap": "angular gap", "confidence": "confidence", "norm_in_class": "norm in class",
    "passes_variance": "variance over models",
}  # fmt: skip
MOST_REASONS = 3  # to print; all are in table1.csv
MOST_CASES = 5  # of each kind of disagreement


def main_lines(found: Correlations) -> Lines:
    """One model with all its scores, or several side by side; the verdicts, and what an option requested."""
    if found.several:
        yield from _models(found)
    for agreement in () if found.several else found.main:
        yield from _singles(agreement, found.settings.level)
    yield _verdicts(found)
    if found.epochs:
        yield _epochs(found.epochs)
    if found.group_rows:
        yield _groups(found.group_rows)


def detail_lines(found: Correlations) -> Lines:
    """Every model with each target, then each model's calibration and disagreement with people."""
    for agreement in found.agreements:
        if found.several or agreement.target.key == "entropy":  # otherwise the overview has it
            yield from _singles(agreement, found.settings.level)
        yield from _bins(agreement)
        if agreement.pairs:
            yield _pairs(found, agreement)
    if any(agreement.pairs for agreement in found.agreements):
        yield line(TRUST + "\n")
    for calibration in found.calibrations:
        yield from _calibration(calibration)
    for disagreement in found.disagreements:
        yield from _disagreement(disagreement)


def for_whom(agreement: Agreement) -> str:
    """What the scores are compared with, after "hard"."""
    return "for people" if agreement.target.measure is not None else f"by {agreement.target.words}"


def _singles(agreement: Agreement, level: float) -> Lines:
    """What is compared, how well people agree with each other, and each score over all samples."""
    target = agreement.target
    accuracy = "" if agreement.accuracy is None else f", accuracy {100 * agreement.accuracy:.2f} %"
    yield line(f"{agreement.model} against {target.words}: n = {agreement.n}, hard where {target.hard}{accuracy}")
    for why, count in agreement.left_out.items():
        yield line(f"  left out: {count} {why}")
    yield from _ceiling(agreement)
    percent = f"{100 * level:g} %"
    header = (
        "score", Cell("Spearman", "spearman"), Cell(percent, "spearman"), Cell("of ceiling", "share_of_ceiling"),
        Cell("Pearson", "pearson"), Cell(percent, "pearson"), Cell("Kendall", "kendall"), Cell("Fisher z", "fisher_z"), "p",
    )  # fmt: skip
    rows = [_single_cells(agreement, name) for name in dict.fromkeys(row["score"] for row in agreement.singles)]
    yield ShownTable("agreement", header, rows, _sign_in_words(agreement), of=_of(agreement))


def _of(agreement: Agreement) -> Row:
    """The values shared by all rows of a table, for JSON."""
    return {"model": agreement.model, "target": agreement.target.key, "n": agreement.n}


def _sign_in_words(agreement: Agreement) -> str:
    return f"agreement: positive where hard by the score is hard {for_whom(agreement)}"


def _ceiling(agreement: Agreement) -> Lines:
    """How well people agree with each other, if known."""
    spearman, pearson = agreement.ceilings["spearman"], agreement.ceilings["pearson"]
    if isinstance(spearman, Ceiling) and isinstance(pearson, Ceiling):
        yield line(
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


def _bins(agreement: Agreement) -> Lines:
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
    yield ShownTable("bins", header, rows, title, of=_of(agreement))
    reasons = dict.fromkeys(row["reason"] for row in agreement.singles if row["reason"] and row["bin"] != "all")
    for reason in list(reasons)[:MOST_REASONS]:
        yield line(f"  – : {reason}")


def _pairs(found: Correlations, agreement: Agreement) -> ShownTable:
    """The first score, usually AVH, against each other score."""
    key = (agreement.model, agreement.target.key)
    pairs = [row for row in found.pair_rows if (row["model"], row["target"]) == key]
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
    return ShownTable("pairs", (*header, Cell("", "verdict")), rows, title, words=2, of=_of(agreement))


def _verdicts(found: Correlations) -> ShownTable:
    targets = {agreement.target.key: agreement.target.words for agreement in found.main}
    rows = []
    for row in found.verdict_rows:
        model = f"{row['model']}, {targets[row['target']]}" if len(targets) > 1 else row["model"]
        cells = (model, row["hypothesis"], row["statement"], row["verdict"], row["note"] or "")
        rows.append((*cells, _signed(row["effect"]), _interval(row)))
    title = "The paper's hypotheses" + (f", against {next(iter(targets.values()))}" if len(targets) == 1 else "")
    header = ("model", Cell("", "id"), "hypothesis", "verdict", "note", "effect", Cell("interval", "effect"))
    return ShownTable("hypotheses", header, rows, title, words=5)


def _models(found: Correlations) -> Lines:
    """Several models side by side, for each target."""
    for target in dict.fromkeys(row["target"] for row in found.model_rows):
        first = next(agreement for agreement in found.main if agreement.target.key == target)
        by_model = _by_model([row for row in found.model_rows if row["target"] == target])
        yield line(f"{len(by_model.keys() - {'ensemble'})} models against {first.target.words}: hard where {first.target.hard}")
        yield from _ceiling(first)
        computed = dict.fromkeys(name for scores in by_model.values() for name in scores)
        names = [name for name in SIDE_BY_SIDE if name in computed] or list(computed)
        rows = []
        for model, scores in by_model.items():
            known = next(iter(scores.values()))
            cells = [_signed(scores.get(name, {}).get("agreement")) for name in names]
            mean = number(scores.get("avh", {}).get("mean"))
            rows.append((model, number(known["n"]), _percent(known["accuracy"]), mean, *cells))
        header = ("model", "n", "accuracy", "mean AVH", *(Cell(SIDE_BY_SIDE.get(name, name), name) for name in names))
        title = f"Models side by side (Observation 4), Spearman; {_sign_in_words(first)}"
        yield ShownTable("models", header, rows, title, of={"target": target})


def _by_model(rows: Sequence[Row]) -> dict[str, dict[str, Row]]:
    """Rows by model, or by epoch, and score."""
    by_model: dict[str, dict[str, Row]] = {}
    for row in rows:
        by_model.setdefault(row["model"], {})[row["score"]] = row
    return by_model


def _epochs(epochs: Sequence[Row]) -> ShownTable:
    computed = {row["score"] for row in epochs}
    names = [name for name in ("avh", "confidence", "norm_in_class", "norm") if name in computed]
    rows = []
    for epoch, scores in _by_model(epochs).items():
        n = number(next(iter(scores.values()))["n"])
        rows.append((epoch, n, *(_with_interval(scores.get(name)) for name in names)))
    title = "Epochs (Observation 3): Spearman of each score and its interval"
    return ShownTable("epochs", ("epoch", "n", *names), rows, title)


def _calibration(calibration: Calibration) -> Lines:
    yield line(
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
    yield ShownTable("calibration", header, rows, title, of={"model": calibration.model})


def _disagreement(disagreement: Disagreement) -> Lines:
    counts = "; ".join(f"{count} {quadrant}" for quadrant, count in disagreement.counts.items())
    yield line(f"{disagreement.model}: {counts}\n{disagreement.rule}")
    for title, cases in disagreement.cases.items():
        if cases:
            columns = [key for key in cases[0] if key != "row"]
            rows = [tuple(number(case[key]) for key in columns) for case in cases[:MOST_CASES]]
            of = {"model": disagreement.model, "quadrant": title}
            yield ShownTable("disagreement", columns, rows, title, words=3, of=of)


def _groups(groups: Sequence[Row]) -> ShownTable:
    scores = list(dict.fromkeys(row["score"] for row in groups))
    cells = {(row["model"], row["group"], row["score"]): row for row in groups}
    keys = dict.fromkeys((row["model"], row["group"], row["n"]) for row in groups)
    rows = [
        (model, group, number(n), *(_signed(cells.get((model, group, score), {}).get("agreement")) for score in scores))
        for model, group, n in keys
    ]
    return ShownTable("groups", ("model", "group", "n", *scores), rows, "Within groups: Spearman", words=2)


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
