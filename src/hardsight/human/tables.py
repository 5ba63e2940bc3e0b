"""Columns of the tables of a study, and rows as Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

Row = dict[str, Any]
Columns = list[tuple[str, pa.DataType]]


def _columns(words: str, names: str, whole: str = "n") -> Columns:
    """Names in order with their types: text, integers, and float64 for the rest."""
    kinds = {**dict.fromkeys(words.split(), pa.string()), **dict.fromkeys(whole.split(), pa.int64())}
    return [(name, kinds.get(name, pa.float64())) for name in names.split()]


SINGLE = _columns(
    "model target score hard kind bin reason",
    "model target score hard kind bin n agreement raw low high bootstrap_low bootstrap_high fisher_z p share_of_ceiling reason",
)
PAIR = _columns(
    "model target kind first second trusted verdict reason",
    "model target kind first second n r_first r_second r_between z_first z_second difference "
    "independent_z independent_p_greater independent_p williams_t williams_p_greater williams_p steiger_z steiger_p_greater "
    "steiger_p meng_z meng_p_greater meng_p zou_low zou_high permutation_p trusted trusted_low trusted_high trusted_p_greater "
    "trusted_p holm_p verdict reason",
)
HYPOTHESIS = _columns(
    "model target hypothesis statement verdict note",
    "model target hypothesis statement verdict effect low high p share_of_ceiling note",
)
SIDE = _columns(
    "model target score reason",
    "model target n accuracy score mean agreement bootstrap_low bootstrap_high share_of_ceiling reason",
)
OPEN_SET = _columns("model score", "model score auroc low high known unseen", "known unseen")
GROUP = _columns("model group score reason", "model group score n mean agreement reason")
EPOCH = _columns("model score reason", "model score n accuracy mean agreement low high p reason")
CEILING = _columns("model target kind reason", "model target kind n split_half reliability ceiling splits reason", "n splits")


def as_table(rows: Sequence[Row], columns: Columns) -> pa.Table:
    """Rows as Arrow; all columns exist even without rows, and are null if a row lacks one."""
    return pa.table({name: pa.array([row.get(name) for row in rows], type=kind) for name, kind in columns})
