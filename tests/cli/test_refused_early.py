"""A wrong input is refused in one line with exit code 2, before anything is trained or written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from safetensors.numpy import save_file

from hardsight.errors import MissingExtra, RunError
from hardsight.files.run import Run, check_run_directory

# What is typed, and what the line says. These do not load torch.
ARRAYS = {
    "scroe good.npz": "no such command 'scroe'. Did you mean score? See hardsight --help.",
    "reproduce avh/tabel2": "Did you mean avh/table2?",
    "demo --seed one": "seed must be a whole number of 0 or more and below 4294967296, got 'one'",
    "score god.npz": "god.npz does not exist. Did you mean good.npz?",
    "score photos": "hardsight extract MODEL photos -o run",
    "clean photos": "It holds images: hardsight check photos needs no model; hardsight extract MODEL photos -o run makes a run.",
    "score good.npz --labels photos": "photos is a directory, not a file",
    "score empty": "It is empty.",
    "score empty.npz": "not a readable .npz archive",
    "score good.npz --scores ahv": "Did you mean avh?",
    "score good.npz --limt 3": "no such option: --limt. Did you mean --limit? See hardsight score --help.",
    "score beyond.npz": "labels must be 0 to 2 (or -1 for unlabeled)",
    "score transposed.npz": "pass features.T",
    "score bare.npz": "pass a head, or labels to fit one to.",
    "score bare.npz --head turned.npy": "pass weight.T",
    "score bare.npz --head other.npy": "got features (30, 5) and weight (3, 7)",
    "score bare.npz --labels labels20.npy": "got 20 labels for 30 samples.",
    "score percent.npz": "They look like percentages: divide by 100.",
    "score one_hot.npz": "pass labels.argmax(1).",
    "score nan.npz --strict": "row 3 (id 3) cannot be scored: nonfinite_feature",
    "score nokey.npz": "found feats, y. Use these names: np.savez(FILE, features=X, labels=y).",
    "score notes.parquet": "it begins with 'this', as text does. If it is CSV, name it .csv.",
    "score book.xlsx": "table as .csv",
    "score answers.csv": "Name them with --features 'f*'",
    "score table.csv --features f* --label labl": "it has f1, f2, label. Did you mean label?",
    "score table.csv --features f1 f2 --label label": "separated by commas: f1,f2.",
    "score table.csv --features f --label label": "Did you mean 'f*'?",
    "score table.csv --features g* --label label": "'g*'",
    "score table.csv --features f* --label label --labels labels20.npy": "--label names a column and --labels a file",
    "score turned.npy --features f*": "--features names columns",
    "score semicolons.csv --features f* --label y": "separated by semicolons",
    "score words.csv --features f* --label label": "'f2' is not numeric (row 1 holds 'n/a')",
    "score table.parquet -o table.parquet": "table.parquet",
    "score good.npz -o scores.xlsx": "one of .parquet, .csv, .json",
    "score good.npz -o out/scores.csv": "the directory out does not exist",
    "score good.npz --by hardness": "--by hardness: it must be one of",
    "score good.npz --by loss --scores avh": "--by loss: it must be one of the computed scores. They are: avh",
    "score good.npz --scores all --shard 0/2": "not available for a single shard",
    "score good.npz --head absent.npy": "absent.npy does not exist",
    "score good.npz --top -1": "top must",
    "score good.npz --cluster tcp://127.0.0.1:1": "use -o",
    "score good.npz --limit -1": "limit must be a whole number of 1 or more, got -1",
    "score good.npz --limit many": "limit must be a whole number of 1 or more, got 'many'.",
    "score good.npz --as easiness": "--as hardness",
    "score good.npz --table hardest.txt": ".csv, .tex, .md, .json, .parquet",
    "score good.npz --table good.npz": "good.npz",
    "score good.npz --nonsense": "no such option: --nonsense. See hardsight score --help.",
    "score": "missing argument",
    "--nonsense": "no such option: --nonsense. See hardsight --help.",
    "correlate good.npz --seed -1": "got -1.",
    "correlate good.npz --group": "option '--group' requires an argument. See hardsight correlate --help.",
    "select good.npz --budget 500 -o s.csv": "more than the 30 samples",
    "select good.npz -o s.csv": "give --budget N",
    "select good.npz --budget 5": "missing option '-o' / '--output'",
    "select votes.csv --budget 1 -o s.csv": "which columns are the features",
    "select table.csv --budget 1 -o s.csv": "which columns are the features",
    "select hole.npz --budget 4 --per-class -o s.csv": "class 1 has no samples",
    "mine bare.npz": "give --labels FILE",
    "mine good.npz --label site": "--label names a column",
    "clean bare.npz": "give labels.",
    "clean good.npz --by margn": "Did you mean margin?",
    "audit good.npz --group sote": "it has label, site. Did you mean site?",
    "audit hole.npz --group case": "it names samples and not groups",
    "drift good.npz god.npz": "Did you mean good.npz?",
    "drift good.npz domains.npz": "share none",
    "drift good.npz good.npz": "is given twice",
    "drift good.npz unlabeled.npz": "to compare: store them with the samples.",
    "audit good.npz --group site -o good.npz": "good.npz",
    "report good.npz -o other.pdf": "other.pdf: the page is HTML",
    "curriculum good.npz --by nix -o x.csv": "'nix'",
    "curriculum good.npz --order self-paced -o x.csv": "follows the network",
    "curriculum good.npz --pace-start 0 -o x.csv": "pace_start",
    "dynamics other": "pass a run of hardsight train.",
    "export good.npz --to fiftyon": "Did you mean fiftyone?",
    "export good.npz --to coco": "give --images.",
    "explore table.csv --no-browser": "Name them with --features",
    "explore s3://bucket/run": "copy the run here",
    "explore good.npz --host 0.0.0.0 --no-browser": "--allow-remote",
    "explore good.npz --allowed-host http://x/ --no-browser": "NAME:PORT",
    "explore good.npz --subset human.csv --no-browser": "none of its ids is among the samples",
    "explore good.npz --no-browser --port 99999": "of at most 65535, got 99999",
    "correlate good.npz": "--human FILE",
    "correlate good.npz --human humn.csv": "humn.csv does not exist. Did you mean human.csv?",
    "correlate good.npz --human human.csv": "(the first: 's0') and 30 of 30 human ids are not among",
    "correlate good.npz --human percent20.npy": "got 20 rows for 30 samples.",
    "correlate good.npz --human counts.npy": "counts have 9 classes, the model has 3.",
    "correlate good.npz --human turned_counts.npy": "They look transposed",
    "correlate good.npz --human votes.csv": "columns 'image', 'votes'",
    "correlate good.npz --human typo_human.csv": "Did you mean frequency?",
    "correlate good.npz domains.npz --human answers.csv": "'s0' is not an integer.",
    "correlate gone --human answers.csv -o out": "gone does not exist",
    "correlate good.npz --human photos": "photos is a directory, not a file",
    "score good.npz --class-names photos": "photos is a directory, not a file",
    "correlate good.npz --human answers.csv --bins a,b -o out": "bins must be comma-separated numbers",
    "correlate good.npz --human answers.csv --group mood -o out": "no column 'mood'",
    "correlate good.npz --human answers.csv --images counts.npy -o out": "counts.npy",
    "correlate good.npz --human answers.csv --replicates 1 -o out": "replicates",
    "attack good.npz -o run": "good.npz gives no gradients",
}
IMAGES = ("audit good.npz --group site", "explore good.npz --no-browser", "report good.npz", "export good.npz --to coco",
          "correlate good.npz --human answers.csv")  # fmt: skip
for command in IMAGES:
    ARRAYS[f"{command} --images nothing"] = "got 'nothing', which does not exist"
    ARRAYS[f"{command} --images photos"] = "its ids look like 'cat/0.png', the samples' like 's0'"
SHOWN = {
    "gone": "does not exist",
    "empty": "It is empty.",
    "letter.txt": "a snapshot is a run directory",
    "broken.parquet": "not a readable",
    "twice.parquet": "unique",
    "none.parquet": "no samples",
}
NAMES = {
    "two.txt": "got 2 for 3 classes",
    "object.json": "JSON list of strings",
    "deep.json": "could not be read",
    "gone.txt": "does not exist",
}
ARRAYS |= {f"{command} {file}": message for file, message in SHOWN.items() for command in ("explore", "report")}
ARRAYS |= {
    f"score {data} --class-names {file}": message for file, message in NAMES.items() for data in ("good.npz", "domains.npz")
}

ADAPT, FEATURES = "adapt features.npz:a features.npz:b", "train features.npz --model feature_head --model-options num_inputs=4"
TRAIN = "train photos --model lenet"
# Those of networks, without -o run.
NETWORKS = {
    "extract timm:resnet18 photos --weights no.pt": "there is no weights file no.pt",
    "extract cifar_resnet20 photos --weights bad.safetensors": "bad.safetensors cannot be read as safetensors",
    "extract cifar_resnet20 photos --weights page.pt": "page.pt holds more than tensors, or is damaged",
    "extract cifar_resnet20 photos --weights cut.pth": "cut.pth cannot be read as torch weights",
    "extract cifar_resnet20 photos --weights head.safetensors": "holds a head, not the weights of a network",
    "extract timm:resnet18 photos --weights small.safetensors": "of timm:resnet18: 102 missing (conv1.weight, ",
    "extract trained photos --weights small.safetensors": "does not hold the weights of trained",
    f"{TRAIN} --weights small.safetensors": "does not hold the weights of lenet",
    "adapt photos photos --model lenet --weights small.safetensors": "does not hold the weights of lenet",
    "generalize domains --model lenet --weights small.safetensors": "does not hold the weights of lenet",
    "attack lenet --data photos --weights small.safetensors": "does not hold the weights of hardsight.models.networks:lenet",
    "extract timm:resnet81 photos": "no model 'resnet81'. Did you mean resnet18?",
    "train photos --model torchvision:resnet81": "'resnet81'. Did you mean resnet18?",
    "adapt photos photos --model timm:resnet81": "no model 'resnet81'. Did you mean resnet18?",
    "generalize domains --model timm:resnet81": "no model 'resnet81'. Did you mean resnet18?",
    "extract resnet18 photos": "write it as timm:resnet18.",
    "extract timm/resnet18 photos": "Did you mean timm:resnet18?",
    "extract lenet photos": "not trained: give --weights FILE",
    "extract small.pth photos": "need their architecture: timm:NAME --weights small.pth.",
    "extract mynet.py:Nett photos": "class 'Nett' that makes a model. Did you mean Net?",
    "extract broken.py:Net photos": "broken.py is not Python: ",
    "extract lacking.py:Net photos": "No module named 'no_such_library' (lacking.py, line 1).",
    "extract photos timm:resnet18": "which comes before the data: hardsight extract MODEL",
    "extract timm:resnet18 nothing": "got 'nothing', which does not exist",
    "extract timm:resnet18 digitz": "got 'digitz', which does not exist. Did you mean digits?",
    "extract timm:resnet18 empty": "It holds: nothing.",
    "extract timm:resnet18 good.npz": "good.npz holds features",
    "extract timm:resnet18 moved.csv": "none of the 1 files named exists",
    "extract timm:resnet18 files.csv": "Rename 'filename' to 'path'.",
    "extract timm:resnet18 logits.csv": "a column of the data is named 'logits'",
    "extract timm:resnet18 photos.zip": "Unpack it",
    "extract timm:resnet18 phone": "Files such as 1.HEIC are not read",
    "extract timm:resnet18 table.csv typo.csv": "Of several files, give the folder.",
    "extract timm:resnet18 photos --labels labels.csv": "ids look like 'cat/0.png'; its own look like 'bird/7.png'",
    "extract timm:resnet18 photos --degrade fog=1": "fog",
    "extract timm:resnet18 photos --size big": "size must be a whole number of 1 or more, got 'big'",
    "extract timm:resnet18 photos --precision float61": "Did you mean float16?",
    "attack timm:resnet18 --data photos --epsilon 8": "Write 8/255 for 8 gray levels.",
    "train nothing --model lenet": "got 'nothing', which does not exist",
    "train flat --model lenet": "give --labels",
    "train photos --model mnist_cn": "Did you mean mnist_cnn?",
    "train photos --model resnet18": "write it as timm:resnet18.",
    "train photos --model resnet20": "Did you mean cifar_resnet20?",
    "train features.npz --model lenet": "For rows of numbers there is feature_head, with num_inputs=4.",
    "train features.npz --model feature_head": "num_inputs",
    f"{FEATURES} --watch test=good.npz": "training samples have the shape (4,), those of test (5,)",
    f"{TRAIN} --watch test=nothing": "got 'nothing', which does not exist",
    f"{TRAIN} --loss arcfce": "Did you mean arcface?",
    f"{TRAIN} --loss-options bais=false": "Did you mean bias?",
    f"{TRAIN} --loss supcon --loss-options temperature=hot": "temperature must be a number, got hot",
    f"{TRAIN} --loss supcon --loss-options projection=2.5": "projection must be a whole number, got 2.5",
    f"{TRAIN} --loss triplet --loss-options mining=hrad": "got 'hrad'. Did you mean hard?",
    f"{TRAIN} --loss dual_head": "needs a teacher",
    f"{TRAIN} --loss dual_head --teacher nobody": "nobody",
    f"{TRAIN} --loss dual_head --teacher torchvision:resnet81": "Did you mean resnet18?",
    f"{TRAIN} --order hard-first": "give --curriculum RUN:avh",
    f"{TRAIN} --curriculum teacher:avh": "teacher does not exist",
    f"{TRAIN} --epochs -3": "epochs must be a whole number of 1 or more, got -3",
    f"{TRAIN} --keep-epochs 0": "keep_epochs must be true, false or a whole number of 1 or more",
    f"{TRAIN} --device gpu": "got 'gpu'. Did you mean cuda?",
    f"{TRAIN} --tracker wand": "Did you mean wandb?",
    "adapt photos photos": "images need a model",
    "adapt features.npz:a nothing": "got 'nothing', which does not exist",
    "adapt one.npz": "at least two domains; it has one, 'a'.",
    "adapt good.npz": "needs a domain column",
    "adapt apart.npz:a apart.npz:c": "the source has 0, 1, the target 2, 3.",
    "adapt one_class.npz:a one_class.npz:c": "every target sample is labeled '1'",
    "adapt domains.npz:photo domains.npz:scetch": "Did you mean sketch?",
    f"{ADAPT} --methods cbts": "Did you mean cbst?",
    f"{ADAPT} --methods cbst+ahv": "Did you mean cbst+avh?",
    f"{ADAPT} --portion 0": "portion 0 selects nothing",
    "generalize one.npz": "the data's domain column has a.",
    "generalize one_class.npz": "the domain c has samples of one class only, 1:",
    "generalize apart.npz": "no class of the domain c (2, 3) is in any other domain",
    "generalize photos --model lenet": "at least three domains",
    "generalize domains --model lenet --lists lists": "ids look like 'a/cat/0.png'; its own look like 'a/cat/99.png'",
    "generalize features.npz --lists nothing": "there is no folder nothing",
    "generalize features.npz --losses softmax,drm+ahv": "Did you mean avh?",
    "generalize features.npz --losses avh --loss-options avh:scal=3": "the loss avh has no option 'scal'",
    "generalize features.npz --scales 5,10": "softmax has none to choose",
    "generalize features.npz --precision float16 --device cpu": "float16 needs a GPU",
}
OUTPUTS = {
    "letter.txt": "letter.txt is a file",
    "letter.txt/x": "letter.txt is a file",
    "full": "full is not empty and not a hardsight run (it holds letter.txt)",
    "other": "other holds a run with another command: was 'another command' and is 'hardsight ",
}
COMMANDS = ("extract timm:resnet18 photos", TRAIN, ADAPT, "generalize features.npz", "correlate good.npz --human answers.csv",
            "demo")  # fmt: skip
# Each command in turn, as the shell would start it; whether torch is loaded by then.
SCRIPT = """
import contextlib, functools, io, json, sys
import typer.main
from hardsight.cli import main
typer.main.get_command = functools.cache(typer.main.get_command)  # the commands are made once, not for each line
answers = []
for words in json.load(sys.stdin):
    sys.argv, err = ["hardsight", *words.split()], io.StringIO()
    with contextlib.redirect_stderr(err):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code
    answers.append([code, err.getvalue(), "torch" in sys.modules])
print("answers:" + json.dumps(answers))
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    for row in range(4):
        path = tmp_path / "photos" / ("cat", "dog")[row % 2] / f"{row}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (row, 0, 0)).save(path)
    for row in range(12):
        path = tmp_path / "domains" / "abc"[row % 3] / ("cat", "dog")[row % 2] / f"{row}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (row, 0, 0)).save(path)
    rng = np.random.default_rng(0)
    domain = np.repeat(["a", "b", "c"], 20)
    np.savez(tmp_path / "features.npz", features=rng.normal(size=(60, 4)), labels=np.arange(60) % 2, domain=domain)
    values, labels, last = rng.normal(size=(60, 4)), np.arange(60) % 2, domain == "c"
    np.savez(tmp_path / "one.npz", features=values, labels=labels, domain=np.repeat("a", 60))
    np.savez(tmp_path / "one_class.npz", features=values, labels=np.where(last, 1, labels), domain=domain)
    np.savez(tmp_path / "apart.npz", features=values, labels=labels + 2 * last, domain=domain)
    _hurried(tmp_path, rng)
    (tmp_path / "bad.safetensors").write_bytes(b"no tensors at all")
    (tmp_path / "page.pt").write_bytes(b"<html>no weights</html>")
    (tmp_path / "cut.pth").write_bytes(b"PK\x03\x04" + bytes(200))
    (tmp_path / "lists").mkdir()
    for name in "abc":
        (tmp_path / "lists" / f"{name}_train_kfold.txt").write_text(f"{name}/cat/99.png 1\n")
    (tmp_path / "labels.csv").write_text("id,label\nbird/7.png,bird\n")
    (tmp_path / "moved.csv").write_text("path,label\ncat/0.png,cat\n")
    (tmp_path / "letter.txt").write_text("precious")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("precious")
    Run(tmp_path / "other", "another command", {}, {})
    return tmp_path


def _hurried(folder: Path, rng: np.random.Generator) -> None:
    """The files that HURRIED names: 30 samples, 5 features, 3 classes."""
    features, weight, labels = rng.normal(size=(30, 5)), rng.normal(size=(3, 5)), np.arange(30) % 3
    ids, odd = np.array([f"s{row}" for row in range(30)]), features.copy()
    odd[3, 1] = np.nan
    files: dict[str, dict[str, Any]] = {
        "good": {"features": features, "weight": weight, "labels": labels, "ids": ids, "site": np.repeat(["a", "b"], 15)},
        "bare": {"features": features},
        "unlabeled": {"features": features, "weight": weight, "ids": ids},
        "beyond": {"features": features, "weight": weight, "labels": labels * 2},
        "transposed": {"features": features.T, "weight": weight, "labels": labels},
        "percent": {"probs": np.full((30, 4), 25.0), "labels": labels},
        "nan": {"features": odd, "weight": weight, "labels": labels},
        "nokey": {"feats": features, "y": labels},
        "domains": {"features": features, "labels": labels, "domain": np.repeat(["photo", "sketch"], 15)},
        "hole": {"features": features, "weight": weight, "labels": np.where(labels == 1, -1, labels), "case": ids},
        "one_hot": {"features": features, "weight": weight, "labels": np.eye(3)[labels]},
    }
    for name, arrays in files.items():
        np.savez(folder / f"{name}.npz", **arrays)
    loose: dict[str, np.ndarray] = {"turned": weight.T, "other": rng.normal(size=(3, 7))}
    loose |= {"percent20": rng.random(20), "counts": np.ones((30, 9), int), "labels20": np.arange(20) % 3}
    loose |= {"turned_counts": np.ones((3, 30), int)}
    for name, array in loose.items():
        np.save(folder / f"{name}.npy", array)
    texts = {
        "human.csv": "id,frequency\n" + "".join(f"x{row},0.5\n" for row in range(30)),
        "answers.csv": "id,frequency\n" + "".join(f"s{row},{row / 30}\n" for row in range(30)),
        "typo_human.csv": "id,frequnecy\n" + "".join(f"s{row},0.5\n" for row in range(30)),
        "table.csv": "f1,f2,label\n1,2,a\n3,4,b\n",
        "mynet.py": "import torch\n\nclass Net(torch.nn.Module): ...\n",
        "small.pth": "",
        "files.csv": "filename,label\nphotos/cat/0.png,cat\n",
        "typo.csv": "pth,label\nphotos/cat/0.png,cat\n",
        "logits.csv": "path,label,logits\nphotos/cat/0.png,cat,0.5\n",
        "notes.parquet": "this is text\n" * 20,
        "empty.npz": "",
        "semicolons.csv": "f1;f2;y\n1;2;a\n3;4;b\n",
        "words.csv": "f1,f2,label\n1,2,a\n3,n/a,b\n",
        "book.xlsx": "PK",
        "photos.zip": "PK",
        "votes.csv": "image,votes\n1,2\n2,3\n",
        "broken.py": "class Net(:\n",
        "broken.parquet": "PAR1xxxx",
        "two.txt": "one\ntwo\n",
        "object.json": '{"a": 1}',
        "deep.json": "[" * 100_000,
        "lacking.py": "import no_such_library\n\nclass Net: ...\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    save_file({"trunk.weight": np.zeros((4, 2), np.float32)}, folder / "small.safetensors")
    save_file({"weight": weight, "bias": np.zeros(3)}, folder / "head.safetensors")
    (folder / "trained").mkdir()
    (folder / "trained" / "config.json").write_text('{"factory": "hardsight.models.networks:lenet"}')
    tables: dict[str, dict[str, Any]] = {
        "table": {"id": [1, 2], "features": [[0.5, 1.0], [1.0, 0.5]], "label": [0, 1]},
        "twice": {"id": ["a", "a"], "avh": [0.1, 0.2]},
        "none": {"id": pa.array([], pa.string()), "avh": pa.array([], pa.float64())},
    }
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    (folder / "phone" / "cat").mkdir(parents=True)
    (folder / "phone" / "cat" / "1.HEIC").write_bytes(b"ftypheic")
    (folder / "empty").mkdir()
    (folder / "flat").mkdir()
    Image.new("RGB", (8, 8)).save(folder / "flat" / "0.png")


def everything(folder: Path) -> dict[str, int]:
    held = (path for path in folder.rglob("*") if "__pycache__" not in path.parts)  # which Python writes beside a user's file
    return {str(path): path.stat().st_mtime_ns for path in held}


def answers(commands: list[str], folder: Path) -> list[tuple[int, str, bool]]:
    """Exit code, standard error, and whether torch is loaded by then."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], input=json.dumps(commands), cwd=folder, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    result: list[tuple[int, str, bool]] = json.loads(done.stdout.rpartition("answers:")[2])
    return result


@pytest.mark.parametrize("kind", ["arrays", "networks"])
def test_one_line_and_nothing_written(kind: str, here: Path) -> None:
    networks = {f"{words} -o run": message for words, message in NETWORKS.items()}
    networks |= {f"{words} -o {output}": message for output, message in OUTPUTS.items() for words in COMMANDS}
    cases = ARRAYS if kind == "arrays" else networks
    before = everything(here)
    wrong = {}
    for (words, message), (code, error, has_torch) in zip(cases.items(), answers(list(cases), here), strict=True):
        if not (code == 2 and message in error and error.count("\n") == 1) or (has_torch and kind == "arrays"):
            wrong[words] = (code, error, has_torch)
    assert not wrong, wrong
    assert everything(here) == before


def test_a_directory_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write anywhere
    with pytest.raises(RunError, match=r"no write permission for .*\. Use another -o"):
        check_run_directory(tmp_path / "run", "a command")


def test_the_true_cause_of_a_failed_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that is installed, and misses another or does not fit it, is not what to install."""
    from hardsight.models.libraries import import_with_torchvision

    (tmp_path / "seer.py").write_text("import no_such_vision.ops")
    (tmp_path / "old_seer.py").write_text("raise ImportError('needs seer 2, got 1')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(MissingExtra, match="^seer:NAME needs no_such_vision, which seer imports .*: pip install no_such_vision$"):
        import_with_torchvision("seer", "seer:NAME")
    with pytest.raises(MissingExtra, match="installed but cannot be imported: needs seer 2, got 1"):
        import_with_torchvision("old_seer", "seer:NAME")
    with pytest.raises(MissingExtra, match="^seer:NAME needs no_such_seer: pip install no_such_seer$"):
        import_with_torchvision("no_such_seer", "seer:NAME")
