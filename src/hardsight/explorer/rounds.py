"""What self-training kept, by method and round, from the run's `pseudo_labels.parquet`.

Columns: id, round, kept (bool), label (the pseudo-label); `method` where several were compared; avh, confidence and norm
as the round's model saw them, where they are known: those of the sheet are another model's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hardsight.errors import FileError
from hardsight.explorer.columns import codes
from hardsight.explorer.opening import Sheet
from hardsight.reading import first_line

FILE = "pseudo_labels.parquet"
MEANS = ("avh", "confidence", "norm")


def rounds(sheet: Sheet) -> list[dict[str, Any]]:
    """One line per method and round: how many were kept, how many of them rightly, and their mean scores.

    Each method's last round becomes a column of the sheet, so that the cloud can be coloured by what it kept.
    """
    path = None if sheet.directory is None else sheet.directory / FILE
    if path is None or not path.is_file():
        return []
    table = _read(path)
    at = pc.fill_null(pc.index_in(table.column("id").cast(pa.string()), value_set=sheet.ids), -1).to_numpy()
    kept = pc.fill_null(table.column("kept"), False).to_numpy(zero_copy_only=False).astype(bool) & (at >= 0)
    number = table.column("round").to_numpy()
    method = np.array(table.column("method").to_pylist() if "method" in table.column_names else ["self-training"] * len(table))
    pseudo = pc.fill_null(table.column("label").cast(pa.int64()), -1).to_numpy() if "label" in table.column_names else None
    truth = sheet.labels()
    lines = []
    for name in sorted(set(method.tolist())):
        for turn in sorted(set(number[method == name].tolist())):
            mine = kept & (method == name) & (number == turn)
            line: dict[str, Any] = {"method": name, "round": int(turn), "kept": int(mine.sum()), "right": None}
            if pseudo is not None and (truth[at[mine]] >= 0).any():
                known = mine & (truth[at] >= 0)
                line["right"] = float((pseudo[known] == truth[at[known]]).mean())
            for column in MEANS:
                if (column in table.column_names or column in sheet.columns) and mine.any():
                    own = table.column(column).to_numpy()[mine] if column in table.column_names else None
                    value = float(np.nanmean(sheet.columns[column].values[at[mine]] if own is None else own))
                    line[column] = value if np.isfinite(value) else None
            lines.append(line)
        last = kept & (method == name) & (number == number[method == name].max())
        flags = np.zeros(len(sheet), np.int64)
        flags[at[last]] = 1
        sheet.add(codes(f"kept by {name}", flags, ["left out", "kept"], f"Whether {name} kept the sample in its last round."))
    return lines


def _read(path: Path) -> pa.Table:
    try:
        table = pq.read_table(path, page_checksum_verification=True)
    except (pa.ArrowException, OSError) as error:
        raise FileError(f"{path}: not a readable table of pseudo-labels: {first_line(error)}") from error
    missing = [name for name in ("id", "round", "kept") if name not in table.column_names]
    if missing:
        raise FileError(f"{path}: a table of pseudo-labels needs a column {missing[0]!r}.")
    return table
