"""Tables 2 and 6 to 9 of the AVH paper as printed, recomputed from their own coefficients.

The paper compares two correlations of the same images by the one-sided test for independent groups, and truncates the z
values instead of rounding them. Eleven of its twelve rows follow from the printed coefficients. One does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hardsight.stats import Outcome, fisher_test

PAPER_SAMPLES = 29987


def follows(value: float, printed: str) -> bool:
    """Whether a value, rounded or cut off at the last printed digit, is the printed one.

    Example:
        >>> [follows(value, "70.01") for value in (70.0051, 70.0149, 70.0175, 70.0049, 70.02)]
        [True, True, True, False, False]
    """
    unit = 10 ** len(printed.partition(".")[2])
    exact = round(value * unit, 6)  # a mean of printed numbers is exact to more digits than a float shows
    return round(float(printed) * unit) in (math.floor(exact + 0.5), math.trunc(exact))


@dataclass(frozen=True)
class PrintedRow:
    """One row: the coefficients of AVH and of model confidence, and their z and p."""

    table: int
    model: str
    kind: str  # "spearman", "pearson" or "kendall"
    avh: float
    confidence: float
    transformed: tuple[float, float]  # Z_avh and Z_mc: Fisher's transformation of the two
    z: str  # with the printed digits
    p: str

    @property
    def recomputed(self) -> Outcome:
        """Fisher's test on the printed coefficients."""
        return fisher_test(self.avh, self.confidence, PAPER_SAMPLES)

    @property
    def consistent(self) -> bool:
        """Whether the printed z follows from the printed coefficients."""
        return follows(self.recomputed.statistic, self.z)


PRINTED = (
    PrintedRow(2, "ResNet-50", "spearman", 0.360, 0.325, (0.377, 0.337), "4.85", "<.00001"),
    PrintedRow(2, "ResNet-50", "pearson", 0.385, 0.341, (0.406, 0.355), "6.2", "<.00001"),
    PrintedRow(2, "ResNet-50", "kendall", 0.257, 0.231, (0.263, 0.235), "3.38", ".0003"),
    PrintedRow(6, "AlexNet", "spearman", 0.339, 0.325, (0.352, 0.337), "1.92", ".027"),
    PrintedRow(6, "AlexNet", "pearson", 0.324, 0.310, (0.336, 0.320), "1.90", ".028"),
    PrintedRow(6, "AlexNet", "kendall", 0.244, 0.230, (0.249, 0.234), "1.81", ".035"),
    PrintedRow(7, "VGG-19", "spearman", 0.349, 0.335, (0.364, 0.348), "1.94", ".026"),
    PrintedRow(7, "VGG-19", "pearson", 0.358, 0.343, (0.374, 0.357), "2.09", ".018"),
    PrintedRow(7, "VGG-19", "kendall", 0.244, 0.229, (0.249, 0.233), "1.94", ".026"),
    PrintedRow(9, "DenseNet-121", "spearman", 0.367, 0.329, (0.4059, 0.355), "6.2", "<.00001"),  # z of ResNet-50's Pearson
    PrintedRow(9, "DenseNet-121", "pearson", 0.390, 0.347, (0.412, 0.362), "6.09", "<.00001"),
    PrintedRow(9, "DenseNet-121", "kendall", 0.262, 0.234, (0.268, 0.238), "3.65", ".0001"),
)  # Table 8 repeats Table 2
