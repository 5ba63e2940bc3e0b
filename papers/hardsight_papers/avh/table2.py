"""Tables 2 and 6 to 9: AVH against model confidence, by three coefficients, with the test of their difference.

The printed z and p are computed again from the printed coefficients: eleven of twelve rows follow, one does not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hardsight.screen import interval
from hardsight_papers.avh.panels import Panel, Row, compared, pair, panels, selection
from hardsight_papers.avh.printed_correlations import PAPER_SAMPLES, PRINTED, PrintedRow
from hardsight_papers.context import Context
from hardsight_papers.recipe import Claim, Outcome, Table, Value, claim, recipe
from hardsight_papers.verdicts import DIFFERENCE, Effect

KINDS = ("spearman", "pearson", "kendall")
NETWORKS = {6: "AlexNet", 7: "VGG-19", 8: "ResNet-50", 9: "DenseNet-121"}
COMMANDS = ["hardsight correlate run --human counts.npy --verbose"]
NEEDS = "ImageNet 5k with votes, CIFAR-10H"


def printed_rows(table: int) -> list[PrintedRow]:
    """The rows of a table; Table 8 repeats Table 2."""
    return [row for row in PRINTED if row.table == (2 if table == 8 else table)]


def as_printed(rows: list[PrintedRow]) -> dict[str, list[str | float]]:
    """The printed numbers, for the record."""
    return {f"{row.model} {row.kind}": [row.avh, row.confidence, *row.transformed, row.z, row.p] for row in rows}


@recipe(
    "avh/table2",
    "AVH against model confidence on ResNet-50: three coefficients and z test",
    printed=as_printed(printed_rows(2)),
    needs=NEEDS,
)
def table_2(context: Context) -> Outcome:
    """All networks at hand, and all twelve printed rows."""
    shown = [(panel, compared(context, panel)["pairs"], list(panel.tables)) for panel in panels(context)]
    about = "Each network and each coefficient; the interval is that of the paired bootstrap (Kendall: jackknife), because both "
    return _outcome(about + "coefficients come from the same images.", list(PRINTED), shown, COMMANDS)


def _appendix(table: int) -> None:
    rows, network = printed_rows(table), NETWORKS[table]

    @recipe(f"avh/table{table}", f"AVH against model confidence on {network}", printed=as_printed(rows), needs=NEEDS)
    def run(context: Context) -> Outcome:
        shown = [(panel, compared(context, panel)["pairs"], [_stand_in(panel, table)]) for panel in panels(context)]
        stands = ", ".join(f"{names[0]} on {panel.name}" for panel, _, names in shown)
        return _outcome(f"In place of {network}: {stands}.", rows, shown)


def _outcome(
    about: str, printed: list[PrintedRow], shown: list[tuple[Panel, list[Row], list[str]]], commands: Sequence[str] = ()
) -> Outcome:
    """Printed rows computed again, and the networks that are shown of each panel."""
    return Outcome(
        about=f"{about} {selection([panel for panel, *_ in shown])}",
        tables=[recomputed(printed), *(_ours(*each) for each in shown)],
        claims=[*printed_claims(printed), *(_stronger(*each) for each in shown)],
        commands=commands,
    )


def _stand_in(panel: Panel, table: int) -> str:
    """The weaker networks stand in for AlexNet and VGG-19, the better ones for ResNet-50 and DenseNet-121."""
    names = list(panel.tables)
    return names[min((table - 6) * len(names) // len(NETWORKS), len(names) - 1)]


def recomputed(rows: list[PrintedRow]) -> Table:
    """The printed rows, and what follows from their coefficients by the paper's own test."""
    cells: list[list[Value]] = []
    for row in rows:
        again = row.recomputed
        both = f"{np.arctanh(row.avh):.4f}, {np.arctanh(row.confidence):.4f}"
        cells.append([
            f"{row.model} (Table {row.table})", row.kind, row.avh, row.confidence, *row.transformed, both, row.z,
            round(again.statistic, 3), row.p, f"{again.p_greater:.2g}", f"{again.p:.2g}", "yes" if row.consistent else "NO",
        ])  # fmt: skip
    header = (
        "network", "coefficient", "AVH", "confidence", "Z_avh printed", "Z_mc printed", "both again", "z printed", "z again",
        "p printed", "p one-sided", "p two-sided", "z follows",
    )  # fmt: skip
    return Table(
        f"As printed, and computed again from the printed coefficients (n = {PAPER_SAMPLES:,})",
        header,
        cells,
        words=2,
        note="The paper takes the two coefficients for independent, tests one side, and cuts z off instead of rounding it. "
        "Z_avh and Z_mc are Fisher's transformation of the two coefficients.",
    )


def printed_claims(rows: list[PrintedRow]) -> list[Claim]:
    """Whether the printed z follow, and whether the differences are significant as the paper says."""
    wrong = [row for row in rows if not row.consistent]
    said = "; ".join(
        f"Table {row.table}, {row.model}, {row.kind}: {row.z} is printed, the coefficients give {row.recomputed.statistic:.3f}"
        for row in wrong
    )
    tests = [row.recomputed for row in rows]
    return [
        claim(
            "The printed z values follow from the printed coefficients.",
            rule="Fisher's test for independent groups, n = 29,987: its z, rounded or cut off at the last printed digit.",
            exact=not wrong,
            found=f"{len(rows) - len(wrong)} of {len(rows)} rows follow. {said + '.' if said else ''}".strip(),
        ),
        _significant("by the paper's one-sided test", [test.p_greater for test in tests], "One-sided"),
        _significant("by a two-sided test", [test.p for test in tests], "Two-sided"),
    ]


def _significant(words: str, p_values: list[float], sides: str) -> Claim:
    below = sum(p < 0.05 for p in p_values)
    return claim(
        f"AVH correlates significantly more than model confidence (as printed, {words}).",
        rule=f"{sides} p below 0.05 in every row, from the printed coefficients by Fisher's test for independent groups.",
        exact=below == len(p_values),
        found=f"{below} of {len(p_values)} rows.",
    )


def _ours(panel: Panel, rows: list[Row], networks: list[str]) -> Table:
    cells: list[list[Value]] = []
    for network in networks:
        for kind in KINDS:
            row = pair(rows, network, kind)
            ends = interval(row["trusted_low"], row["trusted_high"])
            steiger = f"{row['steiger_z']:+.2f}", f"{row['steiger_p']:.2g}"
            cells.append([network, kind, row["r_first"], row["r_second"], f"{row['difference']:+.3f}", ends, *steiger])
    header = ("network", "coefficient", "AVH", "confidence", "difference", "95 %", "Steiger's z", "p two-sided")
    return Table(f"Ours: {panel.name}", header, cells, words=2)


def _stronger(panel: Panel, rows: list[Row], networks: list[str]) -> Claim:
    pairs = [pair(rows, network) for network in networks]
    said = [f"{row['model']} {row['difference']:+.3f} {interval(row['trusted_low'], row['trusted_high'])}" for row in pairs]
    people = "people" if panel.by_people else "the level of degradation"
    return claim(
        f"AVH correlates more strongly with {people} than model confidence does (hypothesis 3). {panel.name}.",
        rule="The 95 % paired-bootstrap interval of the difference of Spearman's coefficients lies above 0 for every network.",
        effects=[
            Effect(row["difference"], row["trusted_low"], row["trusted_high"], DIFFERENCE, row["model"], row["n"], "images")
            for row in pairs
        ],
        found="; ".join(said) + ".",
    )


for number in NETWORKS:
    _appendix(number)
