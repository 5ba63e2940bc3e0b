"""A wrong input is refused before torch is loaded or anything is trained, in one line, and nothing is left behind."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from safetensors.numpy import save_file

from hardsight.errors import MissingExtra, RunError, require_installed
from hardsight.files.run import Run, check_run_directory

FEATURES = ["features.npz:a", "features.npz:b"]
REFUSED: dict[str, tuple[list[str], str]] = {
    "extract, weights": (["extract", "timm:resnet18", "photos", "--weights", "no.pt"], "there is no weights file no.pt"),
    "extract, damaged weights": (["extract", "timm:resnet18", "photos", "--weights", "bad.safetensors"], "as safetensors"),
    "extract, a page instead of weights": (
        ["extract", "timm:resnet18", "photos", "--weights", "page.pt"],
        "page.pt cannot be read as torch weights: it begins with b'<html>",
    ),
    "extract, weights cut short": (
        ["extract", "timm:resnet18", "photos", "--weights", "cut.pth"],
        "it ends before the archive does",
    ),
    "extract, no weights at all": (
        ["extract", "timm:resnet18", "photos", "--weights", "photos"],
        "there is no weights file photos",
    ),
    "extract, data": (["extract", "timm:resnet18", "nothing"], "got 'nothing', which does not exist"),
    "extract, no file of a table": (["extract", "timm:resnet18", "moved.csv"], "none of the 1 files named exists below"),
    "extract, ids": (
        ["extract", "timm:resnet18", "photos", "--labels", "labels.csv"],
        "whose ids look like 'cat/0.png'; its own look like 'bird/7.png'",
    ),
    "extract, degradation": (["extract", "timm:resnet18", "photos", "--degrade", "fog=1"], "fog"),
    "train, weights": (["train", "photos", "--model", "timm:resnet18", "--weights", "no.pt"], "there is no weights file no.pt"),
    "train, data": (["train", "nothing", "--model", "lenet"], "got 'nothing', which does not exist"),
    "train, no file of a table": (["train", "moved.csv", "--model", "lenet"], "none of the 1 files named exists below"),
    "train, ids": (
        ["train", "photos", "--model", "lenet", "--labels", "labels.csv"],
        "whose ids look like 'cat/0.png'; its own look like 'bird/7.png'",
    ),
    "train, loss": (["train", "photos", "--model", "lenet", "--loss", "sofmax"], "Did you mean softmax?"),
    "train, model": (["train", "photos", "--model", "lenett"], "lenett is not a network to train"),
    "train, no teacher": (["train", "photos", "--model", "lenet", "--loss", "dual_head"], "needs a teacher"),
    "train, teacher": (["train", "photos", "--model", "lenet", "--loss", "dual_head", "--teacher", "nobody"], "nobody"),
    "train, watched data": (
        ["train", "photos", "--model", "lenet", "--watch", "test=nothing"],
        "got 'nothing', which does not exist",
    ),
    "train, rows for a network of images": (
        ["train", "features.npz", "--model", "lenet"],
        "lenet takes images, and the samples are rows of 4 numbers: for these there is feature_head",
    ),
    "train, rows of another length": (
        ["train", "features.npz", "--model", "sphere_mlp"],
        "sphere_mlp takes rows of 3 numbers, and the samples have 4: give the model option num_inputs=4.",
    ),
    "train, watched rows of another length": (
        ["train", "features.npz", "--model", "feature_head", "--model-options", "num_inputs=4", "--watch", "test=good.npz"],
        "training samples have the shape (4,), those of test (5,): they must agree",
    ),
    "train, no curriculum": (
        ["train", "photos", "--model", "lenet", "--order", "hard-first"],
        "needs a score to order by: give --curriculum RUN:avh",
    ),
    "train, no score of a curriculum": (["train", "photos", "--model", "lenet", "--curriculum", "run"], "is written RUN:SCORE"),
    "train, no subset": (["train", "photos", "--model", "lenet", "--subset", "nothing.csv"], "nothing.csv does not exist"),
    "adapt, weights": (["adapt", "photos", "photos", "--model", "lenet", "--weights", "no.pt"], "there is no weights file no.pt"),
    "adapt, data": (["adapt", "features.npz:a", "nothing"], "got 'nothing', which does not exist"),
    "adapt, images": (["adapt", *FEATURES, "--images", "nothing"], "got 'nothing', which does not exist"),
    "adapt, ids of images": (
        ["adapt", *FEATURES, "--images", "photos"],
        "photos: no image has the id of a target sample; its ids look like 'cat/0.png', the samples' like '20'",
    ),
    "adapt, model": (["adapt", "photos", "photos"], "images need a model"),
    "adapt, unknown model": (["adapt", "photos", "photos", "--model", "lenett"], "lenett is not a network to train"),
    "generalize, weights": (["generalize", "photos", "--model", "lenet", "--weights", "no.pt"], "there is no weights file no.pt"),
    "generalize, data": (["generalize", "nothing"], "got 'nothing', which does not exist"),
    "generalize, loss": (["generalize", "features.npz", "--losses", "softmax,drm+ahv"], "Did you mean avh?"),
    "generalize, half on a CPU": (
        ["generalize", "features.npz", "--precision", "float16", "--device", "cpu"],
        "precision float16 needs a GPU; on a CPU use bfloat16",
    ),
    "generalize, model": (["generalize", "domains", "--model", "cnn11"], "cnn11 is not a network to train"),
    "generalize, domains": (["generalize", "photos", "--model", "lenet"], "needs at least three domains"),
    "generalize, ids of lists": (
        ["generalize", "domains", "--model", "lenet", "--lists", "lists"],
        "none of its files is in the data, whose ids look like 'a/cat/0.png'; its own look like 'a/cat/99.png'",
    ),
    "generalize, lists": (["generalize", "features.npz", "--lists", "nothing"], "lists: there is no folder nothing"),
    "correlate, data": (["correlate", "nothing", "--human", "answers.csv"], "nothing does not exist"),
    "correlate, answers": (["correlate", "good.npz", "--human", "nothing.csv"], "nothing.csv"),
    "correlate, ids": (
        ["correlate", "good.npz", "--human", "human.csv"],
        "30 of 30 samples have no human data (the first: 's0') and "
        "30 of 30 human ids are not among the samples (the first: 'x0')",
    ),
    "correlate, images": (
        ["correlate", "good.npz", "--human", "answers.csv", "--images", "nothing"],
        "got 'nothing', which does not exist",
    ),
    "correlate, ids of images": (
        ["correlate", "good.npz", "--human", "answers.csv", "--images", "photos"],
        "photos: no image has the id of a sample; its ids look like 'cat/0.png', the samples' like 's0'",
    ),
}
# Commands that write beside their input, or nothing: images that are not there, and those of other samples.
IMAGES = ("audit good.npz --group site", "explore good.npz --no-browser", "report good.npz", "export good.npz --to coco")
# What a hurried user types: the words, and what the one line says to change.
HURRIED: dict[str, tuple[str, str]] = {
    "wrong path": ("score god.npz", "god.npz does not exist. Did you mean good.npz?"),
    "wrong path of images": ("train photo --model lenet -o run", "Did you mean photos?"),
    "folder of images for a run": ("score photos", "It holds images: hardsight extract MODEL photos -o run"),
    "folder of images for scores": ("correlate photos --human human.csv", "It holds images: hardsight extract"),
    "folder for a file": ("score good.npz --labels photos", "photos is a directory, not a file"),
    "empty folder": ("score empty", "It is empty."),
    "empty folder of images": ("extract timm:resnet18 empty -o run", "found none. It holds: nothing."),
    "empty file": ("score empty.npz", "not a readable .npz archive"),
    "misspelt built-in data": ("extract timm:resnet18 digitz -o run", "got 'digitz', which does not exist. Did you mean digits?"),
    "misspelt score": ("score good.npz --scores ahv", "there is no score named 'ahv'. Did you mean avh?"),
    "misspelt score to rank by": ("score good.npz --by anglar-gap", "Did you mean angular_gap?"),
    "misspelt score of another command": ("select good.npz --budget 3 --by avhh -o s.csv", "Did you mean avh?"),
    "misspelt option": ("score good.npz --limt 3", "no such option: --limt. Did you mean --limit? See hardsight score --help."),
    "letters of an option in another order": ("score good.npz --lable y", "Did you mean --label?"),
    "misspelt command": ("scroe good.npz", "no such command 'scroe'. Did you mean score? See hardsight --help."),
    "misspelt loss": ("train photos --model lenet --loss arcfce -o run", "Did you mean arcface?"),
    "misspelt model": ("train photos --model mnist_cn -o run", "Did you mean mnist_cnn?"),
    "misspelt model of a library": ("extract timm:resnet81 photos -o run", "no model 'resnet81'. Did you mean resnet18?"),
    "model without its library": ("extract resnet18 photos -o run", "write it as timm:resnet18."),
    "network without its library": ("train photos --model resnet18 -o run", "write it as timm:resnet18."),
    "weights of other classes": (
        "extract timm:resnet18 photos --weights seven.safetensors -o run", "trained on 7 classes: pass --num-classes 7."
    ),
    "weights of yet other classes": (
        "extract torchvision:resnet18 photos --weights seven.safetensors --num-classes 5 -o run", "and --num-classes is 5."
    ),
    "weights of another run": (
        "extract trained photos --weights seven.safetensors -o run", "not hold the weights of trained: 1 missing (trunk.weight)"
    ),
    "weights of a deeper network": (
        "extract timm:resnet18 photos --weights resnet50.safetensors -o run",
        "does not hold the weights of timm:resnet18: it has 3 + 4 + 6 + 3 blocks, not 2 + 2 + 2 + 2. Name the architecture",
    ),
    "weights of other blocks": (
        "extract torchvision:resnet34 photos --weights resnet50.pth -o run", "its blocks have three convolutions, not two."
    ),
    "weights of another kind of network": (
        "extract timm:vit_base_patch16_224 photos --weights resnet50.pth -o run", "have other names (layer1.0.conv1.weight, "
    ),
    "weights of a narrower network": (
        "extract timm:vit_base_patch16_224.augreg_in21k photos --weights vit.safetensors -o run", "384 wide, not 768."
    ),
    "weights of a shallower network to train": (
        "train photos --model cifar_resnet32 --weights cifar.safetensors -o run", "it has 3 + 3 + 3 blocks, not 5 + 5 + 5."
    ),
    "weights of another network to train": (
        "train photos --model lenet --weights cifar.safetensors -o run", "the weights of lenet: its tensors have other names"
    ),
    "weights of another network to adapt": (
        "adapt photos photos --model timm:resnet18 --weights resnet50.pth -o run", "3 + 4 + 6 + 3 blocks, not 2 + 2 + 2 + 2."
    ),
    "head for weights": (
        "extract timm:resnet18 photos --weights head.safetensors -o run", "holds a head, not the weights of a network"
    ),
    "misspelt class of a file": ("extract mynet.py:Nett photos -o run", "class 'Nett' that makes a model. Did you mean Net?"),
    "other header of a list": ("extract timm:resnet18 files.csv -o run", "Rename 'filename' to 'path'."),
    "misspelt method": ("adapt features.npz:a features.npz:b --methods cbts -o run", "Did you mean cbst?"),
    "misspelt score of a method": ("adapt features.npz:a features.npz:b --methods cbst+ahv -o run", "Did you mean cbst+avh?"),
    "misspelt domain": ("adapt domains.npz:photo domains.npz:scetch -o run", "Did you mean sketch?"),
    "misspelt column": ("audit good.npz --group sote", "it has label, site. Did you mean site?"),
    "misspelt tool": ("export good.npz --to fiftyon", "Did you mean fiftyone?"),
    "misspelt recipe": ("reproduce avh/tabel2", "Did you mean avh/table2?"),
    "labels counted from 1": ("score from_one.npz", "Labels look counted from 1: subtract 1."),
    "features transposed": ("score transposed.npz", "features look transposed: pass features.T, one row per sample."),
    "head transposed": ("score bare.npz --head turned.npy", "weight looks transposed: pass weight.T"),
    "probabilities as percentages": ("score percent.npz", "They look like percentages: divide by 100."),
    "frequencies as percentages": ("correlate good.npz --human percent.npy", "They look like percentages: divide by 100."),
    "typo in the header of a list": ("extract timm:resnet18 typo.csv -o run", "got 'pth', 'label'. Rename 'pth' to 'path'."),
    "typo in the header of answers": ("correlate good.npz --human typo_human.csv", "Did you mean frequency?"),
    "misspelt file of answers": ("correlate good.npz --human humn.csv", "humn.csv does not exist. Did you mean human.csv?"),
    "no human data": ("correlate good.npz", "pass either human data (--human FILE) or a column to correlate against (--against"),
    "images without classes": ("train flat --model lenet -o run", "give --labels, or one folder of images per class."),
    "head of another model": ("score bare.npz --head other.npy", "got features (30, 5) and weight (3, 7)"),
    "run of another command": ("dynamics other", "(no directory other/dynamics): pass a run of hardsight train."),
    "output over input": ("score table.parquet -o table.parquet", "table.parquet"),
    "output that is no table": ("score good.npz -o scores.xlsx", "one of .parquet, .csv, .json"),
    "budget above n": ("select good.npz --budget 500 -o s.csv", "more than the 30 samples to choose from: give at most 30."),
    "no budget": ("select good.npz -o s.csv", "the budget is missing: give --budget N"),
    "negative epochs": ("train photos --model lenet --epochs -3 -o run", "it must be greater than or equal to 1"),
    "no class in both": ("adapt apart.npz:a apart.npz:c -o run", "the source has 0, 1, the target 2, 3."),
    "one domain": ("adapt one.npz -o run", "at least two domains; it has one, 'a'."),
    "target of one class": ("adapt one_class.npz:a one_class.npz:c -o run", "a-to-c: every target sample is labeled '1'"),
    "portion that selects nothing": ("adapt features.npz:a features.npz:b --portion 0 -o run", "portion 0 selects nothing"),
    "one domain to leave out": ("generalize one.npz -o run", "the data's domain column has a."),
    "domain of one class": ("generalize one_class.npz -o run", "the domain c has samples of one class only, 1:"),
    "domain without a common class": ("generalize apart.npz -o run", "no class of the domain c (2, 3) is in any other domain"),
    "no source samples": ("adapt features.npz:a features.npz:b --source-portion 0 -o run", "source_portion must be above 0"),
    "NaN in features": ("score nan.npz --strict", "row 3 (id 3) cannot be scored: nonfinite_feature"),
    "npz without features": ("score nokey.npz", "needs one of features, logits or probs among its arrays, found feats, y."),
    "text named .parquet": ("score notes.parquet", "it begins with 'this', as text does. If it is CSV, name it .csv."),
    "answers of fewer samples": ("correlate good.npz --human percent20.npy", "got 20 rows for 30 samples."),
    "answers of other classes": ("correlate good.npz --human counts.npy", "counts have 9 classes, the model has 3."),
    "answers of other samples": ("correlate good.npz domains.npz --human answers.csv", "but 's0' is not an integer."),
    "misspelt file to compare with": ("drift good.npz god.npz", "god.npz does not exist. Did you mean good.npz?"),
    "samples of another file": ("drift good.npz domains.npz", "share no id (such as 's0' and '0')"),
    "misspelt score to order by": ("curriculum good.npz --by ahv -o o.csv", "Did you mean avh?"),
    "misspelt run to check": ("verify god.npz", "Did you mean good.npz?"),
    "arrays to attack": ("attack good.npz -o run", "good.npz holds arrays, and no gradient leads from them back to an image"),
    "gray levels for epsilon": ("attack timm:resnet18 --data photos --epsilon 8 -o run", "Write 8/255 for 8 gray levels."),
    "no labels to clean": ("clean bare.npz", "no labels to check: give labels."),
    "misspelt ranking": ("clean good.npz --by margn", "Did you mean margin?"),
    "folder of images to look at": ("explore photos --no-browser", "It holds images: hardsight extract MODEL photos -o run"),
    "folder of images to report": ("report photos", "It holds images: hardsight extract MODEL photos -o run"),
    "word for a number": ("demo --seed one", "it must be a whole number, got 'one'"),
    "table without features": ("score answers.csv", "Name them with --features 'f*'"),
    "misspelt label column": ("score table.csv --features f* --label labl", "it has f1, f2, label. Did you mean label?"),
    "labels of fewer samples": ("score bare.npz --labels labels20.npy", "got 20 labels for 30 samples."),
    "neither head nor labels": ("score bare.npz", "pass a head, or labels to fit one to."),
    "directory that is not there": ("score good.npz -o out/scores.csv", "the directory out does not exist; create it first."),
    "model and data swapped": ("extract photos timm:resnet18 -o run", "which comes before the data: hardsight extract MODEL"),
    "weights for a model": ("extract resnet50.pth photos -o run", "need their architecture: timm:NAME --weights resnet50.pth."),
    "features for images": ("extract timm:resnet18 good.npz -o run", "is run on images, but good.npz holds features: pass"),
    "word for a size": ("extract timm:resnet18 photos --size big -o run", "invalid value for '--size'"),
    "unknown device": ("train photos --model lenet --device gpu -o run", "got 'gpu'. Did you mean cuda?"),
    "unknown precision": ("extract timm:resnet18 photos --precision float61 -o run", "Did you mean float16?"),
    "misspelt tracker": ("train photos --model lenet --tracker wand -o run", "Did you mean wandb?"),
    "teacher that is not there": ("train photos --model lenet --curriculum teacher:avh -o run", "teacher does not exist"),
    "no domains": ("adapt good.npz -o run", "needs a domain column with at least two domains."),
    "no images to export": ("export good.npz --to coco", "does not say where its images are; give --images."),
    "no output": ("select good.npz --budget 5", "missing option '-o' / '--output'"),
    "port that is none": ("explore good.npz --no-browser --port 99999", "it must be less than or equal to 65535"),
    "column that extract writes": ("extract timm:resnet18 logits.csv -o run", "a column of the data is named 'logits'"),
    "no labels to mine by": ("mine bare.npz", "give --labels FILE"),
    "arrays by other names": ("score nokey.npz", "Use these names: np.savez(FILE, features=X, labels=y)."),
    "labels one-hot": ("score one_hot.npz", "They look one-hot: pass labels.argmax(1)."),
    "list without commas": ("score table.csv --features f1 f2 --label label", "separated by commas: f1,f2."),
    "files of a pattern": ("extract timm:resnet18 table.csv typo.csv -o run", "Of several files, give the folder."),
    "share for a number": ("select good.npz --budget 10% -o s.csv", "it must be a whole number, got '10%'."),
    "beginning of the columns": ("score table.csv --features f --label label", "Did you mean 'f*'?"),
    "network without its prefix": ("train photos --model resnet20 -o run", "Did you mean cifar_resnet20?"),
    "semicolons": ("score semicolons.csv --features f* --label y", "It is separated by semicolons: save it with commas."),
    "word among numbers": ("score words.csv --features f* --label label", "'f2' is not (row 1 holds 'n/a'): change f*"),
    "spreadsheet": ("score book.xlsx", "Save a table as .csv or .parquet, and arrays as .npz"),
    "rows for a network of images": ("train features.npz --model lenet -o run", "lenet takes images, and the samples are rows"),
    "table that is not scored": ("select votes.csv --budget 1 -o s.csv", "Score it first (hardsight score FILE --features 'f*'"),
    "names in a table to explore": ("explore table.csv --no-browser", "a table of scores has class numbers in label. Score a"),
    "network that is not trained": ("extract lenet photos -o run", "not trained: give --weights FILE, or train it first."),
    "slash for a colon": ("extract timm/resnet18 photos -o run", "Did you mean timm:resnet18?"),
    "code that is not Python": ("extract broken.py:Net photos -o run", "broken.py is not Python: "),
    "code that misses a library": (
        "extract lacking.py:Net photos -o run", "No module named 'no_such_library' (lacking.py, line 1)."
    ),
    "archive of images": ("extract timm:resnet18 photos.zip -o run", "Unpack it, and pass the folder."),
    "pictures of a phone": ("extract timm:resnet18 phone -o run", "Files such as 1.HEIC are not read: convert them to JPEG"),
    "answers transposed": ("correlate good.npz --human turned_counts.npy", "They look transposed: one row per sample."),
    "answers in other columns": ("correlate good.npz --human votes.csv", "columns 'image', 'votes': unknown format"),
    "class without samples": ("select hole.npz --budget 4 --per-class -o s.csv", "class 1 has no samples to choose from"),
    "groups of one": ("audit hole.npz --group case", "it names samples and not groups"),
    "ids of another subset": ("explore good.npz --subset human.csv --no-browser", "none of its ids is among the samples"),
    "misspelt file with an ending that others share": ("score zz.npz", "zz.npz does not exist.\n"),
    "column of an array file": ("mine good.npz --label site", "--label names a column of a .csv or .parquet table"),
}  # fmt: skip
OUTPUTS = {
    "file": "letter.txt is a file",
    "letter.txt/x": "letter.txt is a file",
    "full": "full is not empty and not a hardsight run (it holds letter.txt)",
    "other": "other holds a run with another command: was 'another command' and is 'hardsight ",
}
COMMANDS = {
    "extract": ["extract", "timm:resnet18", "photos"],
    "train": ["train", "photos", "--model", "lenet"],
    "adapt": ["adapt", *FEATURES],
    "generalize": ["generalize", "features.npz"],
    "correlate": ["correlate", "good.npz", "--human", "answers.csv"],
    "demo": ["demo"],
}
# Each command in turn, as the shell would start it; then which libraries that take a second to load are loaded.
SCRIPT = """
import contextlib, functools, io, json, sys
import typer.main
from hardsight.cli import main
typer.main.get_command = functools.cache(typer.main.get_command)  # the commands are made once, not for each line
said, heavy = [], ("torch", "timm", "transformers", "sklearn", "scipy.stats", "matplotlib.pyplot")
for words in json.load(sys.stdin):
    sys.argv, err = ["hardsight", *words], io.StringIO()
    with contextlib.redirect_stderr(err):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code
    said.append([code, err.getvalue(), [name for name in heavy if name in sys.modules]])
print("said:" + json.dumps(said))
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
        "from_one": {"features": features, "weight": weight, "labels": labels + 1},
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
    loose: dict[str, np.ndarray] = {"turned": weight.T, "other": rng.normal(size=(3, 7)), "percent": rng.random(30) * 100}
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
        "lacking.py": "import no_such_library\n\nclass Net: ...\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    save_file({**resnet(2, 2, 2, 2), "fc.weight": rng.normal(size=(7, 4)), "fc.bias": np.zeros(7)}, folder / "seven.safetensors")
    save_file(resnet(3, 4, 6, 3, convolutions=3), folder / "resnet50.safetensors")
    save_torch(resnet(3, 4, 6, 3, convolutions=3), folder / "resnet50.pth")
    save_file(resnet(3, 3, 3), folder / "cifar.safetensors")
    save_file({f"blocks.{block}.norm1.weight": np.zeros(384) for block in range(12)}, folder / "vit.safetensors")
    save_file({"weight": weight, "bias": np.zeros(3)}, folder / "head.safetensors")
    (folder / "trained").mkdir()
    save_file({"trunk.weight": np.zeros((4, 2)), "fc.weight": np.zeros((7, 4))}, folder / "trained" / "model.safetensors")
    (folder / "trained" / "config.json").write_text('{"factory": "hardsight.models.lenet:lenet"}')
    pq.write_table(pa.table({"id": [1, 2], "features": [[0.5, 1.0], [1.0, 0.5]], "label": [0, 1]}), folder / "table.parquet")
    (folder / "phone" / "cat").mkdir(parents=True)
    (folder / "phone" / "cat" / "1.HEIC").write_bytes(b"ftypheic")
    (folder / "empty").mkdir()
    (folder / "flat").mkdir()
    Image.new("RGB", (8, 8)).save(folder / "flat" / "0.png")


def resnet(*blocks: int, convolutions: int = 2) -> dict[str, np.ndarray]:
    """Tensors named as those of a ResNet, and small."""
    names = [f"layer{stage}.{block}" for stage, count in enumerate(blocks, 1) for block in range(count)]
    return {f"{name}.conv{number}.weight": np.zeros((2, 2)) for name in names for number in range(1, convolutions + 1)}


def save_torch(tensors: dict[str, np.ndarray], path: Path) -> None:
    """The names and shapes as `torch.save` writes them, without the numbers."""

    def text(words: str) -> bytes:
        return b"X" + struct.pack("<I", len(words)) + words.encode()

    def row(*numbers: int) -> bytes:
        return b"(" + b"".join(b"J" + struct.pack("<i", number) for number in numbers) + b"t"

    pickled = b"\x80\x02}("
    for name, x in tensors.items():
        pickled += text(name) + b"ctorch._utils\n_rebuild_tensor_v2\n(" + text("0") + b"QK\x00"
        pickled += row(*x.shape) + row(*x.shape) + b"\x89tR"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickled + b"u.")


def everything(folder: Path) -> dict[str, int]:
    held = (path for path in folder.rglob("*") if "__pycache__" not in path.parts)  # which Python writes beside a user's file
    return {str(path): path.stat().st_mtime_ns for path in held}


def test_before_torch_is_loaded(here: Path) -> None:
    cases = {name: ([*words, "-o", "run"], message) for name, (words, message) in REFUSED.items()}
    for output, message in OUTPUTS.items():
        place = "letter.txt" if output == "file" else output
        cases |= {f"{name}, {output}": ([*words, "-o", place], message) for name, words in COMMANDS.items()}
    cases |= {name: (words.split(), message) for name, (words, message) in HURRIED.items()}
    others = "photos: no image has the id of a sample; its ids look like 'cat/0.png', the samples' like 's0'"
    for words in IMAGES:
        for images, message in (("nothing", "got 'nothing', which does not exist"), ("photos", others)):
            cases[f"{words}, {images}"] = ([*words.split(), "--images", images], message)
    before = everything(here)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], input=json.dumps([words for words, _ in cases.values()]), cwd=here,
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said: list[Any] = json.loads(done.stdout.rpartition("said:")[2])
    for (name, (_, message)), (code, error, loaded) in zip(cases.items(), said, strict=True):
        assert code == 2 and message in error and error.count("\n") == 1, (name, code, error)
        assert "torch" not in loaded and not (loaded and name in HURRIED), (name, loaded)
    assert everything(here) == before


@pytest.mark.slow
def test_each_as_a_process_within_two_seconds(here: Path) -> None:
    """Of a core: what else the machine does is not the command's."""
    late = {}
    for name, (words, message) in HURRIED.items():
        before = os.times()
        done = subprocess.run([sys.executable, "-m", "hardsight", *words.split()], cwd=here, capture_output=True, text=True)
        after = os.times()
        seconds = after.children_user + after.children_system - before.children_user - before.children_system
        assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1, (name, done.stderr)
        if seconds > 2:
            late[name] = seconds
    assert not late, late


def test_a_directory_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write anywhere
    with pytest.raises(RunError, match=r"no write permission for .*\. Use another -o"):
        check_run_directory(tmp_path / "run", "a command")


def test_what_is_not_installed_is_said_first() -> None:
    with pytest.raises(MissingExtra, match=r"a thing needs no_such_library: pip install 'hardsight\[torch\]'"):
        require_installed("no_such_library", extra="torch", purpose="a thing")


def test_the_true_cause_of_a_failed_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that is installed, and misses another or does not fit it, is not what to install."""
    from hardsight.models.torchvision_models import import_with_torchvision

    (tmp_path / "seer.py").write_text("import no_such_vision.ops")
    (tmp_path / "old_seer.py").write_text("raise ImportError('needs seer 2, got 1')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(MissingExtra, match="^seer:NAME needs no_such_vision, which seer imports .*: pip install no_such_vision$"):
        import_with_torchvision("seer", "seer:NAME")
    with pytest.raises(MissingExtra, match="installed but cannot be imported: needs seer 2, got 1"):
        import_with_torchvision("old_seer", "seer:NAME")
    with pytest.raises(MissingExtra, match="^seer:NAME needs no_such_seer: pip install no_such_seer$"):
        import_with_torchvision("no_such_seer", "seer:NAME")
