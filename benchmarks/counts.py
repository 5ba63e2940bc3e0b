"""`clean --parts counts`: how many labels are wrong, and which, on data whose errors are known.

data       digits, MNIST, PACS features by domain and mixed, CIFAR-10 through ResNet-20 and 32, CIFAR-10N, ImageNet with ReaL's
           verdicts; as they are, and with noise added to the features until heads are 90, 70 and 50 % right
errors     0, 2, 8 and 20 % of the labels: any class (uniform), the next (pair), the most similar (adjacent), and the nearest to
           the sample itself, mostly where it is near (instance)
ways       from features, from probabilities of heads fitted by folds (of the model, for ImageNet), from the epochs of a training

Settings fall into two halves by their names: constants were chosen on the first, the second is reported. Results are written one
by one, so repeating an interrupted run resumes it.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestNeighbors

from benchmarks import peers
from benchmarks.injection import mislabeled
from benchmarks.kept_results import kept
from benchmarks.pictures import even_rows, load, train
from benchmarks.scored import notes_of, opened, probabilities, suspects
from hardsight import HardsightError, extract
from hardsight.quality import out_of_sample
from hardsight.screen import Progress, print_line, print_table

MOST = 5000  # samples of a setting
QUALITIES = (0.9, 0.7, 0.5)  # share that heads get right after noise was added to the features
ERRORS = (("none", 0.0), *((kind, rate) for kind in ("uniform", "pair", "adjacent", "instance") for rate in (0.02, 0.08, 0.2)))
IN_RUNS = (("none", 0.0), ("uniform", 0.08), ("uniform", 0.2), ("pair", 0.2), ("adjacent", 0.08))
UNAUDITED = 0.01  # of the labels of data that nobody audited may be wrong besides
AUDITED = ("cifar10n", "imagenet")
SEED = 11  # of the errors and the noise; constants were chosen with others
BINS = 10


@dataclass(frozen=True)
class LabeledSet:
    """n samples whose right labels are known."""

    name: str
    features: np.ndarray  # (n, d)
    right: np.ndarray  # (n,)
    given: np.ndarray | None = None  # (n,) by people; None where errors are injected
    wrong: np.ndarray | None = None  # (n,) where right labels are not known, but which of the given are wrong
    probs: np.ndarray | None = None  # (n, c) of a model that has not seen the labels


def half_of(setting: str) -> str:
    """The half that a setting belongs to, whatever way its labels are judged in.

    Example:
        >>> half_of("digits~asis~none~0~features"), half_of("digits~asis~pair~20~probs")
        ('reported', 'reported')
    """
    *name, rate, _ = setting.split("~")
    digest = hashlib.sha256("~".join([*name, f"{int(rate):02d}"]).encode()).hexdigest()
    return ("chosen", "reported")[int(digest, 16) % 2]


def run_counts(output: Path, folder: Path | None, progress: Progress, *, quick: bool = False) -> list[dict[str, Any]]:
    """All settings that the data allows, each kept in a file of `output`."""
    results: list[dict[str, Any]] = []
    for source in sources(folder, output / "features", quick=quick):
        for quality, noise in scales(source, output / "scales", quick=quick):
            for kind, rate in (("people", 0.0),) if source.given is not None else ERRORS:
                name = f"{source.name}~{quality}~{kind}~{100 * rate:g}"
                progress(len(results), 0, name)
                results += kept(output / "counts" / name, partial(_ways, source, noise, kind, rate, name))["results"]
    for data in ("digits", "mnist"):
        if data == "digits" or (folder is not None and (folder / "mnist.npz").is_file()):
            for kind, rate in IN_RUNS[: 2 if quick else None]:
                name = f"{data}~trained~{kind}~{100 * rate:g}"
                results += kept(output / "counts" / name, partial(_of_run, data, folder, output, kind, rate, name))["results"]
    return results


def _ways(source: LabeledSet, noise: float, kind: str, rate: float, name: str) -> dict[str, Any]:
    """From features and from the probabilities of heads fitted to them; or from probabilities alone."""
    labels = source.given
    if labels is None:
        labels = source.right if rate == 0 else mislabeled(kind, source.features, source.right, rate, SEED)
    wrong = labels != source.right if source.wrong is None else (labels != source.right) | source.wrong
    features = _noisier(source.features, noise)
    heads = out_of_sample(features, labels) if source.probs is None else source.probs
    right = float((heads.argmax(axis=1) == source.right).mean())
    found = _measured(f"{name}~probs", suspects(probs=heads, labels=labels), wrong, right) | _cleanlab(heads, labels, wrong)
    if source.probs is not None:
        return {"results": [found]}
    theirs = _cleanlab(_with_neighbors(heads, features, labels), labels, wrong)
    of_features = _measured(f"{name}~features", suspects(features=features, labels=labels), wrong, right)
    return {"results": [of_features | theirs, found]}


def _with_neighbors(heads: np.ndarray, features: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """(n, c) probabilities as `clean` mixes them with the labels of the ten nearest, so that cleanlab knows as much."""
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    sample = even_rows(len(unit), 2000)
    near = sample[NearestNeighbors(n_neighbors=11).fit(unit[sample]).kneighbors(unit, return_distance=False)]  # (n, 11)
    others = np.where(near[:, :1] == np.arange(len(unit))[:, None], near[:, 1:], near[:, :-1])  # without itself
    one_hot = np.eye(heads.shape[1])[labels]
    votes = (one_hot[others].sum(axis=1) + one_hot.mean(axis=0)) / 11  # all labels count as one more
    mixtures = [share * heads + (1 - share) * votes for share in np.linspace(0, 1, 11)]
    return max(mixtures, key=lambda probs: np.log(np.maximum(probs[np.arange(len(labels)), labels], 1e-12)).mean())


def _of_run(data: str, folder: Path | None, output: Path, kind: str, rate: float, name: str) -> dict[str, Any]:
    pictures = load(data, folder, 2000)
    labels = pictures.labels if rate == 0 else mislabeled(kind, pictures.images, pictures.labels, rate, SEED)
    train(pictures, labels, output / "runs" / name, SEED)
    snapshot, features, rows = opened(output / "runs" / name)
    labels, truth = labels[rows], pictures.labels[rows]
    heads = out_of_sample(features, labels)
    right = float((heads.argmax(axis=1) == truth).mean())
    found = _measured(f"{name}~run", suspects(snapshot), labels != truth, right)
    return {"results": [found | _cleanlab(heads, labels, labels != truth)]}


def _measured(name: str, table: pa.Table, wrong: np.ndarray, right: float) -> dict[str, Any]:
    """What `clean` says of a setting, in which heads get the share `right` of the samples right."""
    notes = notes_of(table)
    flags = np.asarray(table.column("is_label_issue"))
    quality = table.column("label_quality").to_numpy(zero_copy_only=False)
    bins = np.minimum((BINS * (1 - quality)).astype(int), BINS - 1)
    return {
        "setting": name,
        "samples": len(wrong),
        "right": right,
        "wrong": int(wrong.sum()),
        "expected": notes["expected_errors"],
        "low": notes["expected_errors_low"],
        "high": notes["expected_errors_high"],
        "certainty": notes["certainty"],
        "flagged": int(flags.sum()),
        "f1": _f1(flags, wrong),
        "bins": np.bincount(bins, minlength=BINS).tolist(),
        "wrong_in_bins": np.bincount(bins, weights=wrong, minlength=BINS).astype(int).tolist(),
    }


def _cleanlab(probs: np.ndarray, labels: np.ndarray, wrong: np.ndarray) -> dict[str, Any]:
    """F1 of its own flags."""
    if "cleanlab" not in peers.installed() or len(np.unique(labels)) > 500:  # minutes a setting
        return {"cleanlab_f1": None, "cleanlab_flagged": None}
    from cleanlab.filter import find_label_issues

    with peers.quiet():
        flags = find_label_issues(labels, probs / probs.sum(axis=1, keepdims=True), n_jobs=1)
    return {"cleanlab_f1": _f1(flags, wrong), "cleanlab_flagged": int(flags.sum())}


def _f1(flags: np.ndarray, wrong: np.ndarray) -> float:
    return float(2 * (flags & wrong).sum() / max(1, flags.sum() + wrong.sum()))


def scales(source: LabeledSet, folder: Path, *, quick: bool) -> Iterator[tuple[str, float]]:
    """Names of the qualities, and the noise that each takes, in standard deviations of every feature."""
    yield "asis", 0.0
    if source.probs is not None:
        return
    found = kept(folder / source.name, lambda: {"scales": _scales(source)})["scales"]
    for name, noise in found.items():
        if not quick or name == "70":
            yield name, noise


def _scales(source: LabeledSet) -> dict[str, float]:
    rows = np.random.default_rng(SEED).permutation(len(source.right))[:2000]
    features, labels = source.features[rows], source.right[rows]
    found, best = {}, _share_right(features, labels, 0.0)
    for target in QUALITIES:
        if best < target + 0.03:
            continue
        low, high = 0.0, 1.0
        while _share_right(features, labels, high) > target and high < 64:
            low, high = high, 2 * high
        for _ in range(5):
            middle = (low + high) / 2
            low, high = (middle, high) if _share_right(features, labels, middle) > target else (low, middle)
        found[f"{100 * target:g}"] = high
    return found


def _share_right(features: np.ndarray, labels: np.ndarray, noise: float) -> float:
    return float((out_of_sample(_noisier(features, noise), labels, folds=3).argmax(axis=1) == labels).mean())


def _noisier(features: np.ndarray, noise: float) -> np.ndarray:
    if noise == 0:
        return features
    drawn = np.random.default_rng(SEED).standard_normal(features.shape)
    return np.asarray(features + noise * features.std(axis=0) * drawn, dtype=np.float32)


def sources(folder: Path | None, cache: Path, *, quick: bool) -> Iterator[LabeledSet]:
    """What there is in the directory, at most 5,000 samples each."""
    digits, labels = load_digits(return_X_y=True)
    yield LabeledSet("digits", digits.astype(np.float32), labels)
    if folder is None or quick:
        return
    if (folder / "mnist.npz").is_file():
        arrays = np.load(folder / "mnist.npz")
        images, labels = arrays["test_images"], arrays["test_labels"]
        rows = even_rows(len(labels), 3000)
        pixels = images[rows].reshape(len(rows), -1).astype(np.float32) / 255
        yield LabeledSet("mnist", pixels, labels[rows].astype(np.int64))
    if (folder / "pacs_effnetlite0.npz").is_file():
        yield from _pacs(folder / "pacs_effnetlite0.npz")
    if (folder / "cifar10_test.npz").is_file():
        for name in ("resnet20", "resnet32"):
            features, labels, _ = _seen_by(name, folder / "cifar10_test.npz", cache)
            yield LabeledSet(f"cifar-{name}", features, labels)
    if (folder / "cifar10_train.npz").is_file() and (folder / "cifar10n_train.npz").is_file():
        features, _, ids = _seen_by("resnet20", folder / "cifar10_train.npz", cache)
        people = np.load(folder / "cifar10n_train.npz")
        for name in ("random1", "random2", "random3"):
            right, given = (people[key][ids].astype(np.int64) for key in ("clean", name))
            yield LabeledSet(f"cifar10n-{name}", features, right, given)
    if (folder / "imagenet_val5k.tar").is_file() and (folder / "imagenet_votes.npz").is_file():
        yield from _imagenet(folder, cache)


def _pacs(path: Path) -> Iterator[LabeledSet]:
    arrays = np.load(path)
    features, labels = arrays["features"].astype(np.float32), arrays["labels"].astype(np.int64)
    for code, domain in enumerate(arrays["domain_names"]):
        rows = np.flatnonzero(arrays["domains"] == code)
        rows = rows[even_rows(len(rows), 2000)]
        yield LabeledSet(f"pacs-{domain}", features[rows], labels[rows])
    rows = even_rows(len(labels), 4000)
    yield LabeledSet("pacs-mixed", features[rows], labels[rows])


def _seen_by(network: str, images: Path, cache: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(n, d) features, (n,) labels and (n,) numbers of images, extracted once."""
    run = cache / f"cifar_{network}-{images.stem}"
    extract(f"cifar_{network}", images, run, weights=images.with_name(f"cifar10_{network}.safetensors"), limit=MOST)
    snapshot, features, ids = opened(run)
    return features, np.asarray(snapshot.in_memory().labels), ids


def _imagenet(folder: Path, cache: Path) -> Iterator[LabeledSet]:
    """With the network's own head; people's verdicts say which labels are wrong."""
    from hardsight_papers.avh.imagenet import lite, voted_rows

    try:
        snapshot = extract(lite(0), folder / "imagenet_val5k.tar", cache / "imagenet", keep_head=True)
    except HardsightError as error:
        print_line(f"ImageNet is left out: {error}")
        return
    votes = folder / "imagenet_votes.npz"
    arrays, ids = np.load(votes), snapshot.columns(["id"]).column("id").to_pylist()
    order = voted_rows(votes, arrays["ids"].astype(str).tolist(), ids)
    labels, wrong = arrays["labels"][order], ~arrays["label_is_real"][order]
    features = np.asarray(snapshot.in_memory().values)
    yield LabeledSet("imagenet", features, labels, None, wrong, probabilities(snapshot.head, features))


def covered(result: dict[str, Any]) -> bool:
    """Whether the interval holds the truth; unaudited data may have one wrong label in a hundred besides."""
    besides = 0 if result["setting"].startswith(AUDITED) else UNAUDITED * result["samples"]
    return bool(result["low"] <= result["wrong"] + besides and result["wrong"] <= result["high"])


def summary(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means over the settings of each half, quality and kind of errors; of the widths the median."""
    rows = []
    for result in results:
        _, quality, kind, _, _ = result["setting"].split("~")
        shares = {name: result[name] / result["samples"] for name in ("wrong", "expected", "flagged")}
        others = {name: result[name] for name in ("right", "f1", "cleanlab_f1")}
        width, unsure = (result["high"] - result["low"]) / result["samples"], float(result["certainty"] == "cannot tell")
        told = {"covered": float(covered(result)), "width": width, "cannot_tell": unsure}
        rows.append({"half": half_of(result["setting"]), "quality": quality, "kind": kind, **others, **shares, **told})
    keys = ["half", "quality", "kind"]
    how = [(name, "approximate_median" if name == "width" else "mean") for name in rows[0] if name not in keys]
    table = pa.Table.from_pylist(rows).group_by(keys).aggregate([*how, ("flagged", "max"), ("half", "count")])
    return table.sort_by([(key, "ascending") for key in keys]).to_pylist()


def print_counts(results: list[dict[str, Any]], output: Path) -> None:
    """The summary and the reliability of `label_quality` on the screen, and every setting in a file."""
    columns = ["half", *(name for name in results[0] if not name.endswith("bins"))]
    with (output / "counts.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows({"half": half_of(result["setting"]), **result} for result in results)
    table = summary(results)
    shown = [tuple(f"{value:.3f}" if isinstance(value, float) else str(value) for value in row.values()) for row in table]
    print_table(tuple(table[0]), shown, words=3)
    for half in ("chosen", "reported"):
        of_half = [result for result in results if half_of(result["setting"]) == half]
        three = [result for result in of_half if "~instance~" not in result["setting"]]
        bins = np.sum([result["bins"] for result in three], axis=0)
        wrong = np.sum([result["wrong_in_bins"] for result in three], axis=0)
        print_line(
            f"{half}: intervals hold the truth in {np.mean([covered(r) for r in three]):.3f} of {len(three)} settings, "
            f"{np.mean([covered(r) for r in of_half]):.3f} of {len(of_half)} with errors by instance; "
            f"share wrong by tenths of 1 - label_quality: {', '.join(f'{x:.2f}' for x in wrong / np.maximum(bins, 1))}"
        )
