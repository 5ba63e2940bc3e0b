"""Tables 2 and 6 to 9: AVH against model confidence, by three coefficients, with the test of their difference.

The printed z and p are computed again from the printed coefficients: eleven of twelve rows follow, one does not.
"""

from __future__ import annotations

import numpy as np

from hardsight_papers.avh.panels import Panel, Row, compared, pair, panels, selection
from hardsight_papers.avh.printed_correlations import PAPER_SAMPLES, PRINTED, PrintedRow
from hardsight_papers.context import Context
from hardsight_papers.recipe import Claim, Outcome, Table, Value, claim, recipe

KINDS = ("spearman", "pearson", "kendall")
NETWORKS = {6: "AlexNet", 7: "VGG-19", 8: "ResNet-50", 9: "DenseNet-121"}
NEEDS = "ImageNet 5k with votes, CIFAR-10H"
Z_SCORES = {  # Z_avh and Z_mc as printed: Fisher's transformation of the two coefficients
    2: {"spearman": (0.377, 0.337), "pearson": (0.406, 0.355), "kendall": (0.263, 0.235)},
    6: {"spearman": (0.352, 0.337), "pearson": (0.336, 0.320), "kendall": (0.249, 0.234)},
    7: {"spearman": (0.364, 0.348), "pearson": (0.374, 0.357), "kendall": (0.249, 0.233)},
    9: {"spearman": (0.4059, 0.355), "pearson": (0.412, 0.362), "kendall": (0.268, 0.238)},
}


def printed_rows(table: int) -> list[PrintedRow]:
    """The rows of a table; Table 8 repeats Table 2."""
    return [row for row in PRINTED if row.table == (2 if table == 8 else table)]


def as_printed(rows: list[PrintedRow]) -> dict[str, list[str | float]]:
    """The printed numbers, for the record."""
    return {f"{row.model} {row.kind}": [row.avh, row.confidence, *Z_SCORES[row.table][row.kind], row.z, row.p] for row in rows}


@recipe(
    "avh/table2",
    "AVH against model confidence on ResNet-50: three coefficients and z test",
    printed=as_printed(printed_rows(2)),
    needs=NEEDS,
)
def table_2(context: Context) -> Outcome:
    """All networks at hand, and all twelve printed rows."""
    compared_panels = [(panel, compared(context, panel)["pairs"]) for panel in panels(context)]
    return Outcome(
        about="Each network and each coefficient; the interval is that of the paired bootstrap (Kendall: jackknife), because "
        "both coefficients come from the same images. " + selection([panel for panel, _ in compared_panels]),
        tables=[recomputed(list(PRINTED)), *(_ours(panel, rows, list(panel.tables)) for panel, rows in compared_panels)],
        claims=[*printed_claims(list(PRINTED)), *(_stronger(panel, rows, list(panel.tables)) for panel, rows in compared_panels)],
        commands=["hardsight correlate run --human counts.npy --verbose"],
    )


def _appendix(table: int) -> None:
    rows = printed_rows(table)
    network = NETWORKS[table]

    @recipe(f"avh/table{table}", f"AVH against model confidence on {network}", printed=as_printed(rows), needs=NEEDS)
    def run(context: Context) -> Outcome:
        compared_panels = [(panel, compared(context, panel)["pairs"]) for panel in panels(context)]
        chosen = [(panel, pairs, [_stand_in(panel, table)]) for panel, pairs in compared_panels]
        stands = ", ".join(f"{names[0]} on {panel.name}" for panel, _, names in chosen)
        return Outcome(
            about=f"In place of {network}: {stands}. {selection([panel for panel, _ in compared_panels])}",
            tables=[recomputed(rows), *(_ours(*each) for each in chosen)],
            claims=[*printed_claims(rows), *(_stronger(*each) for each in chosen)],
        )


def _stand_in(panel: Panel, table: int) -> str:
    """The weaker networks stand in for AlexNet and VGG-19, the better ones for ResNet-50 and DenseNet-121."""
    names = list(panel.tables)
    return names[min((table - 6) * len(names) // len(NETWORKS), len(names) - 1)]


def recomputed(rows: list[PrintedRow]) -> Table:
    """The printed rows, and what follows from their coefficients by the paper's own test."""
    cells: list[list[Value]] = []
    for row in rows:
        test = row.recomputed
        p_value: list[Value] = [f"{test.p_greater:.2g}", f"{test.p:.2g}"]
        name = f"{row.model} (Table {row.table})"
        cells.append(
            [
                name,
                row.kind,
                row.avh,
                row.confidence,
                *Z_SCORES[row.table][row.kind],
                f"{np.arctanh(row.avh):.4f}, {np.arctanh(row.confidence):.4f}",
                row.z,
                round(test.statistic, 3),
                row.p,
                *p_value,
                "yes" if row.consistent else "NO",
            ]
        )
    return Table(
        f"As printed, and computed again from the printed coefficients (n = {PAPER_SAMPLES:,})",
        (
            "network",
            "coefficient",
            "AVH",
            "confidence",
            "Z_avh printed",
            "Z_mc printed",
            "both again",
            "z printed",
            "z again",
            "p printed",
            "p one-sided",
            "p two-sided",
            "z follows",
        ),
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
            holds=not wrong,
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
        holds=below == len(p_values),
        found=f"{below} of {len(p_values)} rows.",
    )


def _ours(panel: Panel, rows: list[Row], networks: list[str]) -> Table:
    cells: list[list[Value]] = []
    for network in networks:
        for kind in KINDS:
            row = pair(rows, network, kind)
            ends = f"[{row['trusted_low']:+.3f}, {row['trusted_high']:+.3f}]"
            cells.append(
                [
                    network,
                    kind,
                    row["r_first"],
                    row["r_second"],
                    f"{row['difference']:+.3f}",
                    ends,
                    f"{row['steiger_z']:+.2f}",
                    f"{row['steiger_p']:.2g}",
                ]
            )
    header = ("network", "coefficient", "AVH", "confidence", "difference", "95 %", "Steiger's z", "p two-sided")
    return Table(f"Ours: {panel.name}", header, cells, words=2)


def _stronger(panel: Panel, rows: list[Row], networks: list[str]) -> Claim:
    pairs = [pair(rows, network) for network in networks]
    people = "people" if panel.by_people else "the level of degradation"
    return claim(
        f"AVH correlates more strongly with {people} than model confidence does (hypothesis 3). {panel.name}.",
        rule="The 95 % paired-bootstrap interval of the difference of Spearman's coefficients lies above 0 for every network.",
        holds=all(row["trusted_low"] > 0 for row in pairs),
        found="; ".join(
            f"{row['model']} {row['difference']:+.3f} [{row['trusted_low']:+.3f}, {row['trusted_high']:+.3f}]" for row in pairs
        )
        + ".",
    )


for number in NETWORKS:
    _appendix(number)
