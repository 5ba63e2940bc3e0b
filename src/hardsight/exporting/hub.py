"""A dataset as on the Hugging Face Hub: Parquet files that `datasets.load_dataset` opens, one per split, and a dataset card.

An image is a struct of its bytes and its path, and a class an integer; the schema's metadata says so (`Image`, `ClassLabel`).
The folder stays on this machine unless `--push ORG/NAME` asks for it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hardsight.data import BrokenImage
from hardsight.errors import InputError, first_line, require
from hardsight.exporting.material import CLASSES, MARKER, Material, make_folder, png
from hardsight.files.writing import replacing, write_text
from hardsight.render.showing import markdown_text
from hardsight.scores import SCORES
from hardsight.table import hard_end
from hardsight.version import VERSION

OPENS = 'datasets.load_dataset("{folder}")'
IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
SPLITS = {None: "train", "val": "validation"}  # as the library names them
ROWS = 100  # images in memory


def write(material: Material) -> None:
    """Write data/SPLIT-00000-of-00001.parquet for every split, and README.md; a picture that cannot be read is null."""
    folder = make_folder(material.folder / "data")
    names = [name for name in material.table.column_names if name.removesuffix("_name") not in CLASSES or name in CLASSES]
    table = material.table.select(names).combine_chunks()
    schema = _schema(table.schema, material.class_names)
    splits = _splits(table)
    files = {folder / f"{split}-00000-of-00001.parquet": split for split in sorted(set(splits))}
    for file in {*folder.glob("*-00000-of-00001.parquet")} - files.keys():
        file.unlink()  # a split of an earlier export
    for file, split in files.items():
        _write_split(material, table, schema, np.flatnonzero(splits == split), file)
    write_text(material.folder / "README.md", card(material, table.schema.names, Counter(splits.tolist())), "text")
    if material.push is not None:
        push(material.folder, material.push)
        material.notes.append(f"Pushed to the dataset {material.push}, which is private unless it was public before.")


def _splits(table: pa.Table) -> np.ndarray:
    """(m,) each sample's split, as a part of a file name."""
    if "split" not in table.column_names:
        return np.full(len(table), "train", dtype=object)
    splits = table.column("split").to_pylist()
    return np.array([SPLITS.get(split, re.sub(r"\W+", "_", split or "train")) for split in splits], dtype=object)


def _schema(schema: pa.Schema, class_names: list[str]) -> pa.Schema:
    """The columns with an image first, and their types in the library."""
    features: dict[str, Any] = {"image": {"_type": "Image"}}
    fields = [field for field in schema if field.name != "image"]
    for field in fields:
        names = {"names": class_names, "_type": "ClassLabel"}
        features[field.name] = names if field.name in CLASSES else {"dtype": _dtype(field.type), "_type": "Value"}
    notes = {**(schema.metadata or {}), b"huggingface": json.dumps({"info": {"features": features}}).encode()}
    return pa.schema([pa.field("image", IMAGE), *fields], notes)


def _dtype(kind: pa.DataType) -> str:
    return {"float": "float32", "double": "float64"}.get(str(kind), str(kind))


def _write_split(material: Material, table: pa.Table, schema: pa.Schema, rows: np.ndarray, path: Path) -> None:
    options = {"compression": "zstd", "write_page_checksum": True}
    with replacing(path) as temporary, pq.ParquetWriter(temporary, schema, **options) as writer:
        for start in range(0, len(rows), ROWS):
            part = rows[start : start + ROWS]
            pictures = pa.array([_picture(material, int(index)) for index in part], IMAGE)
            values = {name: table.column(name).take(pa.array(part)) for name in schema.names if name != "image"}
            writer.write_table(pa.table({"image": pictures, **values}, schema=schema))


def _picture(material: Material, index: int) -> dict[str, Any] | None:
    """The bytes of a file as they are, or of an array as PNG."""
    row = int(material.rows[index])
    try:
        file = material.pictures.file(row)
        content = png(material.pictures.image(row)) if file is None else file.read_bytes()
    except (BrokenImage, OSError):
        return None
    return {"bytes": content, "path": f"{index:06d}.png" if file is None else file.name}


# The card


def card(material: Material, names: list[str], counts: Counter[str]) -> str:
    """README.md: what the Hub must know as YAML, then what a reader must know."""
    title, n = material.display.name, sum(counts.values())
    known = ["---", f"pretty_name: {json.dumps(title)}", "task_categories:", "- image-classification", "tags:", "- hardsight"]
    known += ["configs:", "- config_name: default", "  data_files:"]
    for split in sorted(counts):
        known += [f"  - split: {split}", f"    path: data/{split}-*"]
    suspects = material.display.suspects
    lines = [
        *known,
        "---",
        "",
        f"# {markdown_text(title)}",
        "",
        f"{n:,} images in {len(material.class_names):,} classes, and how hard each is for a model (hardsight {VERSION}).",
        *([suspects.expected] if suspects is not None and suspects.expected else []),
        "",
        "| split | images |",
        "|---|---|",
        *(f"| {split} | {counts[split]:,} |" for split in sorted(counts)),
        "",
        "| column | meaning |",
        "|---|---|",
        *(f"| {markdown_text(name)} | {markdown_text(_meaning(material, name))} |" for name in ("image", *names)),
        "",
    ]
    return "\n".join(lines)


def _meaning(material: Material, name: str) -> str:
    """What a column is, and which end of a score is hard."""
    if name in SCORES:
        return f"{SCORES[name].summary} {hard_end(material.table.schema, name).capitalize()} is hard."
    column = material.display.columns.get(name)
    fixed = {"image": "The image.", "id": "The id of the sample.", "path": "Where the image was."}
    return fixed.get(name, "" if column is None else column.about)


def push(folder: Path, name: str) -> None:
    """Upload the folder as a dataset of the Hub; a new one is private."""
    hub: Any = require("huggingface_hub", extra="hf", purpose="--push")
    try:
        hub.create_repo(name, repo_type="dataset", private=True, exist_ok=True)
        hub.upload_folder(repo_id=name, repo_type="dataset", folder_path=folder, ignore_patterns=[MARKER])
    except (OSError, ValueError) as error:  # the network, a name that is none, no token: all errors of the library are of these
        raise InputError(f"--push {name}: the folder {folder} is written, but not uploaded: {first_line(error)}") from error
