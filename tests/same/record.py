"""`make same`: do the commands still write the same numbers? Compares this tree with `recorded.parquet`, made by an earlier one.

    python tests/same/record.py             compare: a line for each table that differs, and exit code 1
    python tests/same/record.py --record    record anew, after a change of numbers that is meant
    python tests/same/record.py --list      what is recorded, and how exactly

Only the command line is called, on scikit-learn's digits and on seeded arrays, so that modules can move freely. Compared are the
tables that the commands write: ids, column names, types and values; not wording, timings, versions, paths or figures. A recording
is made twice, in two processes: where these differ, the tolerance is ten times the difference. Sums of float32 may be ordered
differently on another processor, and training amplifies that: record there first, on the tree that you compare with.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1", MPLBACKEND="agg")  # one order of sums

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.csv  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

RECORDED = Path(__file__).with_name("recorded.parquet")
EXACT, SUMMED = 1e-9, 1e-6  # relative: float64, and float32 whose sums may be ordered anew
READ = {".parquet", ".csv", ".npz", ".safetensors", ".json"}
ABOUT = {"run.json", "start.json", "config.json", ".hardsight-export.json"}  # arguments, versions, checksums
WORDING = set("explanation note notes reason statement path paths file_name seconds version hardsight".split())  # never compared
CODED = set("verdict why quadrant outcome".split())  # compared by which rows are alike, not by the words
LOSSES = (
    "softmax avh lgm gm center l_softmax a_softmax normface normalized_softmax cosface arcface comp_sum truncated_gce znorm ldr "
    "aldr contrastive triplet proto_triplet icnn supcon smooth_adversarial"
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
    "score-features": "score data.npz --scores all -o {}/t.parquet",
    "score-logits": "score logits.npz --scores all -o {}/t.parquet",
    "score-probs": "score probs.npz --scores all -o {}/t.parquet",
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
    "train-teacher": f"{IMAGES} --limit 40 --epochs 1 --loss dual_head --teacher train -o {{}}",
    **{f"train-{loss}": f"train data.npz {FEATURES} --loss {loss} --no-snapshot -o {{}}" for loss in LOSSES},
    "train-ens": f"train odd.npz {FEATURES} --loss ens --no-snapshot -o {{}}",
    "extract": "extract train digits --limit 60 --layers trunk.4,trunk.7 --passes flip -o {}",
    "extract-degraded": "extract train-images-avh digits --limit 20 --degrade contrast=0.2,1.0 -o {}",
    "score-run": "score train --scores all --images digits -o {}/t.parquet",
    "score-run-avh": "score train-images-avh --scores all -o {}/t.parquet",
    "score-run-lgm": "score train-images-lgm --scores all -o {}/t.parquet",
    "score-extract": "score extract --scores all --reference train -o {}/t.parquet",
    "dynamics": "dynamics train --group label --table {}/t.parquet -o {}",
    "clean-run": "clean train -o {}/t.parquet",
    "select-run": "select train --budget 20 -o {}/t.parquet",
    "curriculum-run": "curriculum train -o {}/t.parquet",
    "correlate-against": f"correlate extract-degraded --against level --hard low {FEW} -o {{}}",
    "attack": "attack train --methods fgsm,pgd --epsilon 0.1,0.3 --steps 3 --limit 20 --trajectories 5 --path-steps 4 -o {}",
    "adapt": "adapt domains.npz:a domains.npz:b --methods source,cbst,crst,cbst+avh,coral+threshold,subspace,avc,weighted,"
    "entropy,depict --rounds 2 --hidden 16 --source-epochs 3 --seeds 2 --subspace-size 4 -o {}",
    "generalize": "generalize domains.npz --losses softmax,avh,lgm,drm,drm-tta --epochs 2 --hidden 16 --batch-size 16 -o {}",
    **{f"export-{tool}": f"export train --to {tool} --limit 20 -o {{}}" for tool in ("cleanlab", "coco", "labelstudio")},
}
SINGLE = list(COMMANDS)[list(COMMANDS).index("score-single") :]


def write_data() -> None:
    """The inputs, in the working directory: digits as eight numbers each, their heads, and what people say of them."""
    from sklearn.datasets import load_digits

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


def run(name: str, command: str) -> None:
    """A command as a user gives it, quietly."""
    from hardsight.cli import main

    said, sys.argv = io.StringIO(), ["hardsight", *shlex.split(command.replace("{}", name))]
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
            main()
    except SystemExit as end:
        if end.code:
            sys.exit(f"{name} ends with {end.code}: {said.getvalue().strip()}\n  hardsight {' '.join(sys.argv[1:])}")


def numbers_in(value: Any, name: str, found: dict[str, list[float]]) -> dict[str, list[float]]:
    """Every number of a JSON document, by its keys; lists are counted through."""
    if isinstance(value, dict):
        for key, part in value.items():
            numbers_in(part, f"{name}.{key}", found)
    elif isinstance(value, list):
        for part in value:
            numbers_in(part, name, found)
    elif isinstance(value, int | float) and not set(name.split(".")) & WORDING:
        found.setdefault(name, []).append(float(value))
    return found


def columns(path: Path) -> dict[str, Any]:
    """The columns of a file as Arrow or NumPy arrays."""
    if path.suffix == ".npz":
        return dict(np.load(path, allow_pickle=False))
    if path.suffix == ".safetensors":
        from safetensors.numpy import load_file

        return {name: values if path.stem == "head" else values.reshape(1, -1) for name, values in load_file(path).items()}
    if path.suffix == ".json":
        return {name: np.array(found) for name, found in numbers_in(json.loads(path.read_text()), "", {}).items()}
    table = pq.read_table(path) if path.suffix == ".parquet" else pyarrow.csv.read_csv(path)
    notes = json.loads((table.schema.metadata or {}).get(b"hardsight", b"{}"))
    noted = {f"notes{name}": np.array(found) for name, found in numbers_in(notes, "", {}).items()}
    return dict(zip(table.column_names, table.columns, strict=True)) | noted


def entry(name: str, values: Any) -> dict[str, Any]:
    """A column as it is recorded: its type, and numbers or texts."""
    kind = str(values.type if isinstance(values, pa.ChunkedArray) else values.dtype.kind + str(values.dtype.itemsize))
    rows = values.to_pylist() if isinstance(values, pa.ChunkedArray) else values.tolist()
    if not isinstance(rows, list):
        rows = [rows]
    if any(isinstance(row, str) for row in rows):
        if name in CODED:  # which rows are alike, whatever it is called
            codes: dict[Any, int] = {}
            return {"type": kind, "numbers": [float(codes.setdefault(row, len(codes))) for row in rows]}
        return {"type": kind.rstrip("0123456789"), "texts": rows}
    if any(isinstance(row, list) for row in rows):
        width = max(np.size(row) for row in rows if row is not None)
        kind, vector = f"{kind} {width}", np.cos(np.arange(width)) + 1.5
        rows = [None if row is None else float(np.ravel(row).astype(float) @ vector[: np.size(row)]) for row in rows]
    return {"type": kind, "numbers": [np.nan if row is None else float(row) for row in rows]}


def recording() -> list[dict[str, Any]]:
    """Run every command in an empty directory, and read what each has written."""
    from matplotlib.figure import Figure

    Figure.savefig = lambda self, path, **options: Path(path).write_bytes(b"") if isinstance(path, str | Path) else None  # type: ignore
    entries = []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        write_data()
        for name, command in COMMANDS.items():
            if "{}/" in command:
                Path(name).mkdir()
            run(name, command)
            for path in sorted(path for path in Path(name).rglob("*") if path.suffix in READ and path.name not in ABOUT):
                for column, values in columns(path).items():
                    if column not in WORDING:
                        tolerance = SUMMED if name in SINGLE else EXACT
                        entries.append({"table": str(path), "column": column, "tolerance": tolerance, **entry(column, values)})
    return entries


def distance(new: dict[str, Any], old: dict[str, Any]) -> np.ndarray:
    """(n,) how far apart the rows of two columns are, relative to their size; infinity where only one is missing."""
    if old["texts"] is not None:
        return np.array([0.0 if a == b else np.inf for a, b in zip(new["texts"], old["texts"], strict=True)])
    a, b = np.array(new["numbers"], float), np.array(old["numbers"], float)
    largest = np.max(np.abs(b[np.isfinite(b)]), initial=0.0)
    size = np.maximum(np.abs(b), largest * (1 if old["tolerance"] > EXACT else 1e-3))  # float32 is as exact as its terms
    with np.errstate(invalid="ignore", divide="ignore"):
        apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b) / size)
    return np.where(np.isnan(apart), np.inf, apart)


def difference(new: dict[str, dict[str, Any]], old: dict[str, dict[str, Any]]) -> str | None:
    """What is first seen to differ between two tables, by their columns."""
    if missing := [name for name in old if name not in new]:
        return f"without {', '.join(missing)}"
    if added := [name for name in new if name not in old]:
        return f"with {', '.join(added)}, which was not there"
    if list(new) != list(old):
        return f"columns in another order: {', '.join(new)}"
    ids, seen = old.get("id", {}), []
    for name in old:
        a, b = new[name], old[name]
        values = "numbers" if b["texts"] is None else "texts"
        if a["type"] != b["type"] or a[values] is None:
            seen.append(f"{name} is {a['type']}, was {b['type']}")
        elif len(a[values]) != len(b[values]):
            seen.append(f"{name} has {len(a[values])} rows, had {len(b[values])}")
        elif (apart := distance(a, b) > b["tolerance"]).any():
            row = int(np.argmax(apart))
            of = (ids.get("texts") or ids.get("numbers") or [f"row {i}" for i in range(row + 1)])[row]
            seen.append(f"{name} of {of} is {a[values][row]}, was {b[values][row]} ({apart.sum()} of {len(apart)} rows)")
    return None if not seen else seen[0] + (f"; and {len(seen) - 1} more columns" if len(seen) > 1 else "")


def tables(entries: list[dict[str, Any]]) -> dict[str, dict[str, dict[str, Any]]]:
    """Entries by table and column."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for one in entries:
        found.setdefault(one["table"], {})[one["column"]] = {"texts": None, "numbers": None} | one
    return found


def write(entries: list[dict[str, Any]], path: Path) -> None:
    """A recording as one Parquet file: a row for every column of every table."""
    kinds = {"table": pa.string(), "column": pa.string(), "type": pa.string(), "tolerance": pa.float64()}
    schema = pa.schema(kinds | {"numbers": pa.list_(pa.float64()), "texts": pa.list_(pa.string())})
    for one in entries:
        if one.get("numbers"):  # two digits more than are compared: noise would take most of the space
            fraction, exponent = np.frexp(one["numbers"])
            one["numbers"] = np.ldexp(
                np.round(np.ldexp(fraction, bits := 37 if one["tolerance"] == EXACT else 27)), exponent - bits
            )
    texts = ["table", "column", "type"]
    pq.write_table(pa.Table.from_pylist(entries, schema), path, use_dictionary=texts, compression="zstd", compression_level=19)


def record() -> None:
    """Record in two processes; where they differ, say so and allow ten times as much."""
    with tempfile.TemporaryDirectory() as folder:
        both = [Path(folder, "first.parquet"), Path(folder, "second.parquet")]
        for path in both:
            subprocess.run([sys.executable, __file__, "--write", path], check=True)
        first, second = (tables(pq.read_table(path).to_pylist()) for path in both)
    for table, old in first.items():
        if told := difference(second[table], old):
            print(f"not repeatable: {table}: {told}")
            worst = max(float(distance(second[table][name], old[name]).max(initial=0.0)) for name in old)
            for column in old.values():
                column["tolerance"] = max(column["tolerance"], 10 * worst)
    write([column for old in first.values() for column in old.values()], RECORDED)
    print(f"{len(first)} tables recorded, {RECORDED.stat().st_size / 1000:.0f} kB")


def compare() -> None:
    """Compare this tree with the recording; a line for each table that differs."""
    new, old = tables(recording()), tables(pq.read_table(RECORDED).to_pylist())
    told = {table: difference(new[table], old[table]) if table in new else "is no longer written" for table in old}
    told |= {table: "was not written before" for table in new if table not in old}
    differing = {table: words for table, words in told.items() if words}
    for table, words in differing.items():
        print(f"{table}: {words}")
    print(f"{len(told) - len(differing)} tables the same" + (f", {len(differing)} not" if differing else ""))
    sys.exit(bool(differing))


if __name__ == "__main__":
    asked = sys.argv[1:]
    if asked == ["--record"]:
        record()
    elif asked == ["--list"]:
        for table, found in tables(pq.read_table(RECORDED).to_pylist()).items():
            print(f"{table}: {len(found)} columns, to {max(column['tolerance'] for column in found.values()):.0e}")
    elif asked[:1] == ["--write"]:
        write(recording(), Path(asked[1]))
    else:
        compare()
