"""`make same`: do the commands still write the same numbers? Compares this tree with `recorded.parquet`, made by an earlier one.

    python tests/same/record.py             compare: a line for each table that differs, and exit code 1
    python tests/same/record.py --record    record anew, after a change of numbers that is meant

Only the command line is called, on scikit-learn's digits and on seeded arrays, so that modules can move freely. Compared are the
tables that the commands write: ids, column names, types and values; not wording, timings, versions, paths or figures. A recording
is made twice, in two processes: where these differ, ten times the difference is allowed. Sums of float32 may be ordered
differently on another processor, and training amplifies that: record there first, on the tree that you compare with.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import runpy
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1", MPLBACKEND="agg")  # one order of sums

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from matplotlib.figure import Figure
from safetensors.numpy import load_file
from sklearn.datasets import load_digits

Column = dict[str, Any]  # type, tolerance, and numbers or texts
Tables = dict[str, dict[str, Column]]

RECORDED = Path(__file__).with_name("recorded.parquet")
EXACT, SUMMED = 1e-9, 1e-6  # relative: float64, and float32 whose sums may be ordered anew
READ = {".parquet", ".csv", ".npz", ".safetensors", ".json"}
ABOUT = {"run.json", "start.json", "config.json", ".hardsight-export.json"}  # arguments, versions, checksums
WORDING = set("explanation note notes reason statement path paths file_name seconds version hardsight".split())  # never compared
CODED = set("verdict why quadrant outcome".split())  # compared by which rows are alike, not by the words
LOSSES = (
    "softmax avh lgm gm center l_softmax a_softmax normface normalized_softmax cosface arcface comp_sum truncated_gce znorm ldr "
    "contrastive triplet proto_triplet icnn supcon smooth_adversarial"
).split()
EVIDENCE = "--scores all --reference reference.npz --models logits.npz"
FEW = "--replicates 50 --permutations 50 --splits 10"
FEATURES = "--model feature_head --model-options num_inputs=8 --limit 40 --epochs 2 --batch-size 16"
IMAGES = "train digits --model DigitsCNN --batch-size 32"

# NAME: COMMAND, in order; {} stands for NAME, where it writes.
COMMANDS = {
    **{
        f"score-{head}": f"score data.npz --head {head}.npz {EVIDENCE} -o {{}}/t.parquet"
        for head in ("linear", "cosine", "angular", "gaussian")
    },
    **{f"score-{evidence}": f"score {evidence}.npz --scores all -o {{}}/t.parquet" for evidence in ("data", "logits", "probs")},
    "score-holes": "score holes.npz --head linear.npz --scores all -o {}/t.parquet",
    "score-shard": "score data.npz --head linear.npz --as hardness --shard 1/3 --by loss --table {}/printed.parquet -o {}/t.csv",
    "clean": "clean data.npz -o {}/t.parquet",
    "clean-head": "clean data.npz --head linear.npz --reference reference.npz --by confidence -o {}/t.parquet",
    "clean-logits": "clean logits.npz --by margin -o {}/t.parquet",
    "clean-probs": "clean probs.npz -o {}/t.parquet",
    "clean-apply": "clean data.npz --apply review.parquet -o {}/t.csv",
    **{
        f"select-{method}": f"select data.npz --head linear.npz --budget 30 --method {method} -o {{}}/t.parquet"
        for method in "coverage hardest easiest balanced random kcenter d2 margin entropy avc".split()
    },
    "select-curve": "select data.npz --budget 30 --method hardest --per-class --curve {}/curve.csv -o {}/t.parquet",
    "curriculum": "curriculum data.npz --head linear.npz --by avh --pacing root -o {}/t.parquet",
    "mine": "mine data.npz -k 3 -o {}/t.parquet",
    "mine-semihard": "mine data.npz -k 3 --kind semihard --positive nearest -o {}/t.parquet",
    "mine-pairs": "mine data.npz -k 3 --pairs -o {}/t.parquet",
    "audit": "audit data.npz --head linear.npz --group site --group age -o {}/t.parquet",
    "audit-latent": "audit odd.npz --clusters 3 -o {}/t.parquet",
    "drift": "drift logits.npz probs.npz -o {}/t.parquet",
    "drift-unpaired": "drift data.npz reference.npz --head linear.npz --unpaired -o {}/t.parquet",
    "correlate": f"correlate whole.npz --human human.npy --group label {FEW} -o {{}}",
    "correlate-two": f"correlate whole.npz probs.npz --human human.npy {FEW} -o {{}}",
    "score-single": "score single.npz --scores all --reference reference.npz -o {}/t.parquet",  # from here on in float32
    "train": f"{IMAGES} --limit 60 --epochs 3 --lr 0.05 --keep-epochs --at-start -o {{}}",
    "train-images-avh": f"{IMAGES} --limit 40 --epochs 2 --loss avh --augment crop=1 --optimizer adamw --schedule cosine -o {{}}",
    "train-images-lgm": f"{IMAGES} --limit 60 --epochs 2 --loss lgm --curriculum train:loss -o {{}}",
    "train-images-aldr": f"{IMAGES} --limit 40 --epochs 2 --loss aldr -o {{}}",
    "train-teacher": f"{IMAGES} --limit 40 --epochs 1 --loss dual_head --teacher train -o {{}}",
    **{f"train-{loss}": f"train data.npz {FEATURES} --loss {loss} --no-snapshot -o {{}}" for loss in LOSSES},
    "train-ens": f"train odd.npz {FEATURES} --loss ens --no-snapshot -o {{}}",
    "extract": "extract train digits --limit 60 --layers trunk.4,trunk.7 --passes flip -o {}",
    "extract-degraded": "extract train-images-avh digits --limit 20 --degrade contrast=0.2,1.0 -o {}",
    "score-run": "score train --scores all --images digits -o {}/t.parquet",
    **{f"score-run-{loss}": f"score train-images-{loss} --scores all -o {{}}/t.parquet" for loss in ("avh", "lgm", "aldr")},
    "score-extract": "score extract --scores all --reference train -o {}/t.parquet",
    "dynamics": "dynamics train --group label --table {}/t.parquet -o {}",
    "clean-run": "clean train -o {}/t.parquet",
    "select-run": "select train --budget 20 -o {}/t.parquet",
    "curriculum-run": "curriculum train -o {}/t.parquet",
    "correlate-against": f"correlate extract-degraded --against level --hard low {FEW} -o {{}}",
    "attack": "attack train --methods fgsm,pgd --epsilon 0.1,0.3 --steps 3 --limit 20 --trajectories 5 --path-steps 4 -o {}",
    "adapt": "adapt domains.npz:a domains.npz:b --methods source,cbst,crst,cbst+avh,coral+threshold,subspace,avc,weighted,"
    "entropy,depict --rounds 2 --hidden 16 --source-epochs 3 --seeds 2 --method-options subspace:size=4 -o {}",
    "generalize": "generalize domains.npz --losses softmax,avh,lgm,drm,drm-tta --epochs 2 --hidden 16 --batch-size 16 -o {}",
    **{f"export-{tool}": f"export train --to {tool} --limit 20 -o {{}}" for tool in ("cleanlab", "coco", "labelstudio")},
}
SINGLE = list(COMMANDS)[list(COMMANDS).index("score-single") :]


def write_data() -> None:
    """The inputs, in the working directory: digits as eight numbers each, their heads, and what people say of them."""
    rng, (pixels, labels) = np.random.default_rng(0), load_digits(return_X_y=True)
    features = (pixels - pixels.mean(0)) @ rng.normal(size=(64, 8)) / 20  # (1797, 8)
    of_class = [features[labels == k] for k in range(10)]
    weight = np.stack([rows.mean(0) for rows in of_class])
    log_variance = np.log([rows.var(0) for rows in of_class])
    x, y, ids = features[:100].copy(), labels[:100].copy(), np.array([f"d{i:03d}" for i in range(100)])
    y[::12] = (y[::12] + 1) % 10  # wrong labels
    x[50] = x[40]  # a copy
    logits = x @ weight.T + rng.normal(size=(100, 10))
    probs = np.exp(logits / 2) / np.exp(logits / 2).sum(1, keepdims=True)
    site, age = np.array(["north", "south"])[rng.integers(0, 2, 100)], np.array(["old", "new"])[rng.integers(0, 2, 100)]
    np.savez("linear.npz", weight=weight, bias=-(weight**2).sum(1) / 2)
    np.savez("cosine.npz", weight=weight, kind="cosine", scale=8.0)
    np.savez("angular.npz", weight=weight, kind="angular", scale=4.0)
    np.savez("gaussian.npz", weight=weight, kind="gaussian", log_variance=log_variance, log_prior=np.log(np.arange(1, 11) / 55))
    np.savez("data.npz", features=x, labels=y, ids=ids, site=site, age=age)
    np.savez("whole.npz", features=x, labels=y, ids=ids, weight=weight)
    np.savez("single.npz", features=x.astype(np.float32), labels=y, ids=ids, weight=weight.astype(np.float32))
    np.savez("logits.npz", logits=logits, labels=y, ids=ids)
    np.savez("probs.npz", probs=probs, labels=y, ids=ids)
    np.savez("reference.npz", features=features[100:220], labels=labels[100:220])
    np.savez("odd.npz", features=features[:240], labels=labels[:240] % 2)
    holes, unlabeled = x[:20].copy(), y[:20].copy()
    holes[3], holes[5, 2], unlabeled[7:9] = 0, np.nan, -1
    np.savez("holes.npz", features=holes, labels=unlabeled)
    np.save("human.npy", rng.multinomial(20, probs))
    shifted = features[:120] + np.repeat([[0.0], [0.3], [-0.3]], 40, axis=0)
    np.savez("domains.npz", features=shifted, labels=labels[:120] % 4, domain=np.repeat(["a", "b", "c"], 40))
    marks = {
        "id": ids[[0, 12, 24]],
        "mark": ["wrong label", "drop", "fine"],
        "suggestion": pa.array([0, None, None], pa.int64()),
    }
    pq.write_table(pa.table(marks), "review.parquet")


def run(name: str, command: str) -> str | None:
    """A command as a user gives it; what it said if it failed."""
    said, sys.argv = io.StringIO(), ["hardsight", *shlex.split(command.replace("{}", name))]
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
            runpy.run_module("hardsight", run_name="__main__")
    except SystemExit as end:
        return f"ends with {end.code}: {said.getvalue().strip()}" if end.code else None
    except Exception as error:
        return f"ends with {error!r}"
    return None


def add_numbers(part: Any, name: str, numbers: dict[str, list[float]]) -> None:
    """Every number of a JSON document, by its keys; the items of a list are one column."""
    if isinstance(part, dict):
        for key, value in part.items():
            add_numbers(value, f"{name}.{key}", numbers)
    elif isinstance(part, list):
        for item in part:
            add_numbers(item, name, numbers)
    elif isinstance(part, int | float) and not set(name.split(".")) & WORDING:
        numbers.setdefault(name, []).append(float(part))


def read_columns(path: Path) -> dict[str, Any]:
    """The columns of a file, as Arrow or NumPy arrays."""
    if path.suffix == ".npz":
        return dict(np.load(path, allow_pickle=False))
    if path.suffix == ".safetensors":  # of a network, one number per tensor is kept; of a head, one per class
        return {name: values if path.stem == "head" else values.reshape(1, -1) for name, values in load_file(path).items()}
    numbers: dict[str, list[float]] = {}
    if path.suffix == ".json":
        add_numbers(json.loads(path.read_text()), "", numbers)
        return {name: np.array(values) for name, values in numbers.items()}
    table = pq.read_table(path) if path.suffix == ".parquet" else pyarrow.csv.read_csv(path)
    add_numbers(json.loads((table.schema.metadata or {}).get(b"hardsight", "{}")), "metadata", numbers)
    columns = dict(zip(table.column_names, table.columns, strict=True)) | {name: np.array(numbers[name]) for name in numbers}
    return {name: values for name, values in columns.items() if name not in WORDING}


def as_recorded(name: str, values: Any) -> Column:
    """A column's type, and its numbers or texts."""
    if isinstance(values, pa.ChunkedArray):
        kind, rows = str(values.type), values.to_pylist()
    else:
        kind, rows = values.dtype.name.rstrip("0123456789") if values.dtype.kind == "U" else values.dtype.name, values.tolist()
    rows = rows if isinstance(rows, list) else [rows]
    if any(isinstance(row, str) for row in rows) and name not in CODED:
        return {"type": kind, "texts": rows, "numbers": None}
    if any(isinstance(row, str) for row in rows):
        words = list(dict.fromkeys(rows))
        rows = [words.index(row) for row in rows]
    elif any(isinstance(row, list) for row in rows):  # a fixed sum of each row stands for it
        width = max(np.size(row) for row in rows if row is not None)
        kind, factors = f"{kind} ({width} each)", np.cos(np.arange(width)) + 1.5
        rows = [None if row is None else np.ravel(row).astype(float) @ factors[: np.size(row)] for row in rows]
    return {"type": kind, "texts": None, "numbers": [np.nan if row is None else float(row) for row in rows]}


def run_all() -> tuple[Tables, dict[str, str]]:
    """Run every command in an empty directory: the tables they wrote, and which of them failed."""
    figure: Any = Figure
    figure.savefig = lambda self, path, **options: (
        Path(path).touch() if isinstance(path, str | Path) else None
    )  # drawing takes long
    tables: Tables = {}
    failed: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        write_data()
        for name, command in COMMANDS.items():
            if "{}/" in command:
                Path(name).mkdir()
            if failure := run(name, command):
                failed[name] = failure
                continue
            for path in sorted(path for path in Path(name).rglob("*") if path.suffix in READ and path.name not in ABOUT):
                columns = {column: as_recorded(column, values) for column, values in read_columns(path).items()}
                tolerance = SUMMED if name in SINGLE else EXACT
                tables[str(path)] = {column: values | {"tolerance": tolerance} for column, values in columns.items()}
    return tables, failed


def distances(new: Column, old: Column) -> np.ndarray:
    """(n,) how far apart the rows of two columns are, relative to their size; infinity where only one is missing."""
    if old["texts"] is not None:
        return np.array([0.0 if a == b else np.inf for a, b in zip(new["texts"], old["texts"], strict=True)])
    a, b = np.array(new["numbers"], float), np.array(old["numbers"], float)
    largest = np.max(np.abs(b[np.isfinite(b)]), initial=0.0)
    size = np.maximum(np.abs(b), largest * (1e-3 if old["tolerance"] == EXACT else 1))  # a float32 is as exact as what it sums
    with np.errstate(invalid="ignore", divide="ignore"):
        relative = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b) / size)
    return np.where(np.isnan(relative), np.inf, relative)


def difference(new: dict[str, Column], old: dict[str, Column]) -> str | None:
    """The first difference between two tables, and in how many columns there are more."""
    if list(new) != list(old):
        lost, added = [name for name in old if name not in new], [name for name in new if name not in old]
        return f"columns lost: {', '.join(lost)}; added: {', '.join(added)}" if lost or added else "columns in another order"
    ids = old["id"]["texts"] or [int(id) for id in old["id"]["numbers"]] if "id" in old else []
    differences = []
    for name in old:
        field = "numbers" if old[name]["texts"] is None else "texts"
        now, before = new[name][field], old[name][field]
        if new[name]["type"] != old[name]["type"] or now is None:
            differences.append(f"{name} is {new[name]['type']}, was {old[name]['type']}")
        elif len(now) != len(before):
            differences.append(f"{name} has {len(now)} rows, had {len(before)}")
        elif (differs := distances(new[name], old[name]) > old[name]["tolerance"]).any():
            row = int(np.argmax(differs))
            id = ids[row] if len(ids) == len(before) else f"row {row}"
            differences.append(f"{name} of {id} is {now[row]!r}, was {before[row]!r} ({differs.sum()} of {len(differs)} rows)")
    return "; ".join(differences[:1] + [f"and {len(differences) - 1} more columns"][: len(differences) - 1]) or None


def write(tables: Tables, path: Path) -> None:
    """A recording as one Parquet file: a row for every column of every table."""
    rows = [{"table": table, "column": name, **column} for table, columns in tables.items() for name, column in columns.items()]
    for row in rows:
        if row["numbers"]:  # two digits more than are compared: their noise would take most of the space
            fraction, exponent = np.frexp(row["numbers"])
            bits = 37 if row["tolerance"] == EXACT else 27
            row["numbers"] = np.ldexp(np.round(np.ldexp(fraction, bits)), exponent - bits)
    kinds = {"table": pa.string(), "column": pa.string(), "type": pa.string(), "tolerance": pa.float64()}
    schema = pa.schema(kinds | {"numbers": pa.list_(pa.float64()), "texts": pa.list_(pa.string())})
    texts = ["table", "column", "type"]
    pq.write_table(pa.Table.from_pylist(rows, schema), path, use_dictionary=texts, compression="zstd", compression_level=19)


def read(path: Path) -> Tables:
    """A recording by table and column."""
    tables: Tables = {}
    for row in pq.read_table(path).to_pylist():
        tables.setdefault(row.pop("table"), {})[row.pop("column")] = row
    return tables


def record() -> None:
    """Record here and in another process; where the two differ, say so and allow ten times as much."""
    with tempfile.TemporaryDirectory() as folder:
        again = Path(folder, "again.parquet")
        subprocess.run([sys.executable, __file__, "--once", again], check=True)
        subprocess.run([sys.executable, __file__, "--once", RECORDED], check=True)
        first, second = read(RECORDED), read(again)
    for table, columns in first.items():
        if words := difference(second[table], columns):
            print(f"not repeatable: {table}: {words}")
            worst = max(distances(second[table][name], columns[name]).max(initial=0.0) for name in columns)
            for column in columns.values():
                column["tolerance"] = max(column["tolerance"], 10 * worst)
    write(first, RECORDED)
    print(f"{len(first)} tables recorded, {RECORDED.stat().st_size / 1000:.0f} kB")


def compare() -> None:
    """Compare this tree with the recording; a line for each table that differs."""
    (new, differing), old = run_all(), read(RECORDED)
    for table in sorted({*old, *new}):
        if table.split("/")[0] not in differing:
            words = difference(new[table], old[table]) if table in old and table in new else "lost" if table in old else "new"
            if words:
                differing[table] = words
    for name, words in differing.items():
        print(f"{name}: {words}")
    print(f"{len(differing)} differ, of {len(old)} tables" if differing else f"{len(old)} tables the same")
    sys.exit(bool(differing))


if __name__ == "__main__":
    asked = sys.argv[1:]
    if asked == ["--record"]:
        record()
    elif asked[:1] == ["--once"]:
        tables, failed = run_all()
        write(tables, Path(asked[1]))
        sys.exit("\n".join(f"{name} {words}" for name, words in failed.items()) or None)
    else:
        compare()
