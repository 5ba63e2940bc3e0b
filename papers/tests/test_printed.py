"""The printed tables of the AVH paper, recomputed from their own coefficients."""

from __future__ import annotations

import math

import pytest

from hardsight_papers.avh.printed_correlations import PRINTED, PrintedRow

RECOMPUTED = {  # row -> z to three decimals, one- and two-sided p
    ("ResNet-50", "spearman"): (4.856, 6e-7, 1e-6),
    ("ResNet-50", "pearson"): (6.207, None, None),
    ("ResNet-50", "kendall"): (3.385, 0.00036, 0.00071),
    ("AlexNet", "spearman"): (1.927, 0.0270, 0.0540),
    ("AlexNet", "pearson"): (1.906, 0.0283, 0.0567),
    ("AlexNet", "kendall"): (1.816, 0.0347, 0.0693),
    ("VGG-19", "spearman"): (1.941, 0.0261, 0.0522),
    ("VGG-19", "pearson"): (2.094, 0.0181, 0.0363),
    ("VGG-19", "kendall"): (1.945, 0.0259, 0.0517),
    ("DenseNet-121", "spearman"): (5.295, 6e-8, None),
    ("DenseNet-121", "pearson"): (6.094, None, None),
    ("DenseNet-121", "kendall"): (3.653, 0.00013, 0.00026),
}


@pytest.mark.parametrize("row", PRINTED, ids=lambda row: f"{row.model}-{row.kind}")
def test_the_papers_tables_follow_from_their_coefficients(row: PrintedRow) -> None:
    found = row.recomputed
    z, one_sided, two_sided = RECOMPUTED[row.model, row.kind]
    assert found.statistic == pytest.approx(z, abs=0.00051)
    for p, expected in ((found.p_greater, one_sided), (found.p, two_sided)):
        if expected is not None:
            assert p == pytest.approx(expected, rel=0.25 if expected < 1e-4 else 0, abs=0 if expected < 1e-4 else 0.00006)
    if (row.model, row.kind) == ("DenseNet-121", "spearman"):
        assert not row.consistent and row.z == "6.2"  # the z of ResNet-50's Pearson row: 5.29 follows from .367 and .329
        assert math.floor(found.statistic * 100) / 100 == 5.29
        return
    assert row.consistent
    digits = len(row.z.partition(".")[2])
    assert f"{math.floor(found.statistic * 10**digits) / 10**digits:.{digits}f}" == row.z  # cut off, not rounded
    if row.p.startswith("<"):
        assert found.p_greater < float(row.p[1:])
    else:  # to a unit of the last digit: the paper rounds some and cuts off others
        assert found.p_greater == pytest.approx(float(row.p), abs=10.0 ** -len(row.p.partition(".")[2]))


def test_one_row_of_twelve_is_inconsistent_and_five_of_six_need_one_side() -> None:
    assert len(PRINTED) == 12
    assert [(row.model, row.kind) for row in PRINTED if not row.consistent] == [("DenseNet-121", "spearman")]
    weak = [row for row in PRINTED if row.model in ("AlexNet", "VGG-19")]
    assert [row.kind for row in weak if row.recomputed.p < 0.05] == ["pearson"] and len(weak) == 6
    assert all(row.recomputed.p_greater < 0.05 for row in weak)
