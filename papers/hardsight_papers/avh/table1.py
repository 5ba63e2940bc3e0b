"""Table 1: Spearman's coefficient between people's frequency and AVH, model confidence and norm, in all and in bins."""

from __future__ import annotations

import itertools

import numpy as np

from hardsight.screen import interval
from hardsight.stats import bootstrap, mean_interval, spearman
from hardsight_papers.avh.panels import REPLICATES, WORDS, Panel, Row, accuracy, compared, panels, selection, total
from hardsight_papers.context import Context
from hardsight_papers.recipe import Claim, Outcome, Table, Value, claim, recipe
from hardsight_papers.verdicts import CORRELATION, DIFFERENCE, Effect

BINS = ("[0, 0.2]", "[0.2, 0.4]", "[0.4, 0.6]", "[0.6, 0.8]", "[0.8, 1.0]")
PRINTED: dict[str, list[float]] = {
    "z-score of AVH and confidence": [0.377, 0.337],
    "samples": [29987, 837, 2732, 6541, 11066, 8811],
    "avh": [0.36, 0.228, 0.125, 0.124, 0.103, 0.094],
    "confidence": [0.325, 0.192, 0.122, 0.102, 0.078, 0.056],
    "norm_in_class": [0.0017, 0.0013, 0.0007, 0.0005, 0.0004, 0.0003],
}


@recipe(
    "avh/table1",
    "Spearman correlation of AVH, model confidence and norm with human selection frequency, overall and by bin",
    printed=PRINTED,
    needs="ImageNet 5k with votes, CIFAR-10H",
)
def table_1(context: Context) -> Outcome:
    """Correlate each score with people; judge hypotheses 1, 2 and 4, and the sentence on bins."""
    compared_panels = [(panel, compared(context, panel)) for panel in panels(context)]
    z_scores = [*PRINTED["z-score of AVH and confidence"], None]
    rows_on_paper: list[list[Value]] = [["number of samples", None, *PRINTED["samples"]]]
    rows_on_paper += [
        [WORDS[name], z, *PRINTED[name]] for name, z in zip(("avh", "confidence", "norm_in_class"), z_scores, strict=True)
    ]
    printed = Table("As printed: ResNet-50 on ImageNet", ("score", "z-score", "all", *BINS), rows_on_paper, digits=4)
    return Outcome(
        about=_about(compared_panels),
        tables=[printed, *(_bins(panel, rows["table1"]) for panel, rows in compared_panels), _models(compared_panels)],
        claims=[_harder_is_weaker_on_paper(), *(claim for panel, rows in compared_panels for claim in _claims(panel, rows))],
        commands=["hardsight correlate run --human counts.npy", "hardsight correlate run --against level"],
    )


def _about(compared_panels: list[tuple[Panel, dict[str, list[Row]]]]) -> str:
    names = "; ".join(f"{panel.name} ({', '.join(panel.tables)})" for panel, _ in compared_panels)
    return f"{names}. {selection([panel for panel, _ in compared_panels])}"


def _bins(panel: Panel, rows: list[Row]) -> Table:
    """The best network's coefficients."""
    network = panel.best
    mine = [row for row in rows if row["model"] == network and row["kind"] == "spearman"]
    bins = list(dict.fromkeys(row["bin"] for row in mine))
    cells: dict[tuple[str, str], Row] = {(row["score"], row["bin"]): row for row in mine}
    counted: list[Value] = ["number of samples", None, *(cells["avh", name]["n"] for name in bins)]
    table: list[list[Value]] = [counted]
    for score, words in WORDS.items():
        values = [cells[score, name]["agreement"] for name in bins]
        table.append([words, None if values[0] is None or abs(values[0]) >= 1 else float(np.arctanh(values[0])), *values])
    note = "A dash: all samples of the bin share one value, so there is no coefficient." if panel.by_people else ""
    return Table(f"{panel.name}: {network}", ("score", "z-score", *bins), table, note=note)


def _models(compared_panels: list[tuple[Panel, dict[str, list[Row]]]]) -> Table:
    rows: list[list[Value]] = []
    for panel, tables in compared_panels:
        for network, scores in panel.tables.items():
            coefficients = [_interval(total(tables["table1"], network, score)) for score in WORDS]
            mean = float(scores["avh"].to_numpy().mean())
            rows.append([panel.name, network, f"{100 * accuracy(scores):.1f} %", f"{mean:.6f}", *coefficients])
    header = ("images", "network", "accuracy", "mean AVH", *WORDS.values())
    return Table("Every network: Spearman with people, over all images, and its 95 % bootstrap interval", header, rows, words=2)


def _harder_is_weaker_on_paper() -> Claim:
    bins = PRINTED["avh"][1:]
    return claim(
        "The harder the sample, the weaker the correlation (as printed).",
        rule="The printed coefficients of AVH rise from the bin [0, 0.2] to the bin [0.8, 1.0].",
        exact=bins == sorted(bins),
        found=f"Printed are {', '.join(map(str, bins))}: they fall, so the table contradicts its text.",
    )


def _harder_is_weaker(panel: Panel, rows: list[Row]) -> Claim:
    """The same sentence by the same rule on our images."""
    wanted = {"model": panel.best, "score": "avh", "kind": "spearman"}
    bins = [row for row in rows if wanted.items() <= row.items() and row["bin"] != "all"]
    values = [row["agreement"] for row in bins]
    known = [value for value in values if value is not None and value == value]
    return claim(
        f"The harder the sample, the weaker the correlation. {panel.name}.",
        rule="The coefficients of AVH rise from the bin of the hardest samples to that of the easiest, as for the printed ones.",
        holds=known == sorted(known) if len(known) == len(values) else None,
        found=f"{panel.best}: {', '.join(f'{value:.3f}' for value in known)}."
        if len(known) == len(values)
        else f"In {len(values) - len(known)} of {len(values)} bins all samples share one frequency.",
    )


def _claims(panel: Panel, rows: dict[str, list[Row]]) -> list[Claim]:
    people = "people" if panel.by_people else "the level of degradation"
    claims = [
        correlates(panel, rows["table1"], "avh", f"AVH correlates with {people} (hypothesis 1)"),
        correlates(panel, rows["table1"], "confidence", f"Model confidence correlates with {people} (hypothesis 2)"),
    ]
    norm = [total(rows["table1"], network, "norm_in_class") for network in panel.tables]
    claims.append(
        claim(
            f"The norm within its class does not correlate with {people} (hypothesis 4). {panel.name}.",
            rule=f"The 95 % bootstrap interval of Spearman's coefficient lies within {CORRELATION:g} of 0 for every network.",
            effects=[_coefficient(row, within=True) for row in norm],
            found="; ".join(_words(row) for row in norm) + ".",
        )
    )
    if panel.by_people:
        claims.append(_harder_is_weaker(panel, rows["table1"]))
    better = sorted(panel.tables, key=lambda network: accuracy(panel.tables[network]))
    if len(better) > 1:
        claims += _better_models(panel, rows, better)
    return claims


def correlates(panel: Panel, rows: list[Row], score: str, sentence: str) -> Claim:
    """Whether a score goes with people in every network of a panel."""
    singles = [total(rows, network, score) for network in panel.tables]
    return claim(
        f"{sentence}. {panel.name}.",
        rule="The 95 % bootstrap interval of Spearman's coefficient lies above 0 for every network.",
        effects=[_coefficient(row) for row in singles],
        found="; ".join(_words(row) for row in singles) + ".",
    )


def _coefficient(row: Row, within: bool = False) -> Effect:
    ends = row["agreement"], row["bootstrap_low"], row["bootstrap_high"]
    return Effect(*ends, CORRELATION, row["model"], row["n"], "images", within)


def _words(row: Row) -> str:
    return f"{row['model']} {_interval(row)}"


def _interval(row: Row) -> str:
    return f"{row['agreement']:+.3f} {interval(row['bootstrap_low'], row['bootstrap_high'])}"


def _better_models(panel: Panel, rows: dict[str, list[Row]], better: list[str]) -> list[Claim]:
    """Observation 4: lower AVH, and a stronger correlation, for better networks."""
    coefficients = [total(rows["table1"], network, "avh")["agreement"] for network in better]
    hardness = [panel.tables[network]["avh"].to_numpy() for network in better]
    means = [float(each.mean()) for each in hardness]
    steps = list(itertools.pairwise(better))
    falls = [_fall(*names, *each) for names, each in zip(steps, itertools.pairwise(hardness), strict=True)]
    fallen = ", ".join(f"{100 * each.estimate:.2f} % {interval(each.low, each.high, 2, factor=100, sign='')}" for each in falls)
    of = ", ".join(f"{network} ({100 * accuracy(panel.tables[network]):.1f} %)" for network in better)
    return [
        claim(
            f"Better models have higher coefficients. {panel.name}.",
            rule="Spearman's coefficient of AVH rises with accuracy from network to network: the intervals of the differences, "
            "over images drawn again.",
            effects=[_rise(panel, first, second) for first, second in steps],
            found=f"{of}: {', '.join(f'{value:.3f}' for value in coefficients)}.",
        ),
        claim(
            f"Better models have a lower average AVH (observation 4). {panel.name}.",
            rule=f"From network to network, as accuracy rises, mean AVH falls by at least {100 * DIFFERENCE:g} %: the 95 % "
            "intervals of the falls, over the same images. A smaller one is not worth having.",
            effects=falls,
            found=f"{of}: {', '.join(f'{value:.6f}' for value in means)}; falls by {fallen}.",
        ),
    ]


def _rise(panel: Panel, first: str, second: str) -> Effect:
    """By how much the coefficient of the second network is higher, with its bootstrap interval."""
    avh = np.stack([-panel.tables[network]["avh"].to_numpy() for network in (second, first)], axis=1)  # (n, 2)
    values = [spearman(avh[:, k], panel.target) for k in (0, 1)]
    if not panel.by_people and values[0] < 0:  # a level of noise rises with hardness
        avh, values = -avh, [-value for value in values]
    draws = bootstrap(avh, panel.target, replicates=REPLICATES["replicates"], seed=0)
    name = f"{second} less {first}"
    return Effect(values[0] - values[1], *draws.difference("spearman", 0, 1), DIFFERENCE, name, len(avh), "images")


def _fall(first: str, second: str, before: np.ndarray, after: np.ndarray) -> Effect:
    """By what share the mean AVH of the second network is lower, with its interval over images."""
    gap = mean_interval((before - after) / before.mean())
    return Effect(gap.value, gap.low, gap.high, DIFFERENCE, f"{first} less {second}, of {first}", len(before), "images")
