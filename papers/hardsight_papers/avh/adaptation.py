"""Adaptation by every method of Table 3, run once for Tables 3 and 4, Figure 6 and the slides' variant (here).

VisDA-17 at scale paper; PACS features with --data, else digits as pixels and the same digits at a fifth of their contrast.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import hardsight
from hardsight.data import ImageData, load_digits
from hardsight.domains import Adapted
from hardsight.screen import interval
from hardsight.stats import Mean, mean_interval
from hardsight_papers.arrays import open_labeled
from hardsight_papers.avh.trainings import subset
from hardsight_papers.context import Context, fingerprint
from hardsight_papers.recipe import Outcome, Table, Value, claim, recipe
from hardsight_papers.seed_statistics import signed
from hardsight_papers.verdicts import Effect

NEEDS = "VisDA-17 at scale paper; PACS features"
METHODS = "source,mmd,dann,entropy,mcd,adr,coral,cbst,crst,cbst+avh,avc,auto"
ON_IMAGES = METHODS.replace("coral", "deep-coral")  # CORAL proper maps given features
SMALL: dict[str, Any] = {"rounds": 6, "epochs": 2, "seeds": 3, "hidden": 256, "limit": 800}
COMPARED = (  # CBST+AVH against every row of the table
    *(("cbst+avh", other) for other in dict.fromkeys(f"{METHODS},{ON_IMAGES}".split(",")) if other not in ("avc", "auto")),
    ("avc", "cbst"), ("auto", "cbst+avh"),
)  # fmt: skip
DIGITS = 1000  # images of each domain, as in the tuning runs of results.md
PAIRS = (("photo", "art_painting"), ("art_painting", "sketch"), ("sketch", "photo"))
VISDA_NETWORK = "torchvision:resnet101"
VISDA: dict[str, Any] = {
    "rounds": 20, "epochs": 1, "portion": "0.2:0.05:0.5", "source_portion": "0.065:0.0085:0.165", "balance": False,
    "flip_labels": True, "method_options": {"crst": {"alpha": 0.25, "weight": 0.01}}, "optimizer": "sgd", "lr": 1e-4,
    "weight_decay": 5e-4, "optimizer_options": {"nesterov": True, "decay_all": True}, "schedule": "step",
    "schedule_options": {"step_size": 7, "gamma": 0.1}, "batch_size": 16,
    "augment": "resized-crop=0.7:1,flip",
    "target_augment": "resized-crop=0.85:1,flip", "seeds": 3,
}  # fmt: skip
VISDA_SOURCE: dict[str, Any] = {
    "pretrained": "V1", "head_hidden": 512, "epochs": 3, "batch_size": 32, "lr": 1e-4, "weight_decay": 5e-4,
    "optimizer_options": {"nesterov": True, "decay_all": True}, "schedule": "step",
    "schedule_options": {"step_size": 7, "gamma": 0.1}, "size": 224, "preprocessing": {"resize": "squash", "crop_pct": 0.875},
    "augment": "resized-crop=0.7:1,flip", "snapshot": False, "device": "auto", "workers": None,
}  # fmt: skip


def adapted(context: Context) -> tuple[str, dict[str, Adapted]]:
    """What it was run on, and every pair of domains, adapted once."""
    if context.scale == "paper":
        visda = context.data.require("visda", "Table 3 at scale paper")
        source = context.train(visda / "train", VISDA_NETWORK, **VISDA_SOURCE)
        options = {"model": source.run, "methods": ON_IMAGES, **VISDA}
        return "VisDA-17, ResNet-101", {"VisDA-17": _adapt(context, visda / "train", visda / "validation", options)}
    path = context.data.find("pacs_features")
    options = {"methods": METHODS, **SMALL}
    length = f"{SMALL['rounds']} rounds, {SMALL['seeds']} seeds"
    about = f"{SMALL['limit']} samples of each domain at most, a head of {SMALL['hidden']} units, {length}"
    if path is None:
        faint = digits_as_features()
        return f"Digits as pixels, and the same at low contrast with noise. {about}", {"digits": _adapt(context, *faint, options)}
    results = {f"{a} to {b}": _adapt(context, f"{path}:{a}", f"{path}:{b}", options) for a, b in PAIRS}
    if not context.data.has("mnist", "usps"):
        return f"PACS, features of EfficientNet-Lite0. {about}", results
    for a, b in (("MNIST", "USPS"), ("USPS", "MNIST")):
        results[f"{a} to {b}"] = _digits(context, a.lower(), b.lower())
    return (
        f"PACS, features of EfficientNet-Lite0: {about}. MNIST and USPS: {DIGITS:,} training images of each, LeNet, {length}",
        results,
    )


def _digits(context: Context, source: str, target: str) -> Adapted:
    """Adapt on images: each seed trains a LeNet on the source, from which all methods of this seed start."""
    options = {name: value for name, value in SMALL.items() if name not in ("hidden", "limit")}
    options |= {"model": "lenet", "methods": ON_IMAGES, **context.machine}
    return _adapt(context, subset(_training(context, source), DIGITS), subset(_training(context, target), DIGITS), options)


def _training(context: Context, name: str) -> ImageData:
    data = open_labeled(context.data.require(name, "this recipe"), splits=True)
    return data.take(np.flatnonzero(np.array(data.columns["split"]) == "train"))


def _adapt(context: Context, source: Any, target: Any, options: dict[str, Any]) -> Adapted:
    place = context.cache.place("adapt", {"source": fingerprint(source), "target": fingerprint(target), **options})
    return hardsight.adapt(source, target, place, progress=context.progress("adapting"), **options)


def digits_as_features() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Half of the digits as 64 pixels, and the other half at a fifth of the contrast with noise."""
    images, labels = load_digits()
    pixels = images.reshape(len(images), -1).astype(np.float32) / 255
    faint = 0.4 + 0.2 * pixels + np.random.default_rng(0).normal(0, 0.04, pixels.shape).astype(np.float32)
    return (pixels[::2], labels[::2]), (faint[1::2], labels[1::2])


def differences(results: dict[str, Adapted]) -> Table:
    """CBST+AVH against the others, AVC alone against CBST, and `auto` against CBST+AVH."""
    rows: list[list[Value]] = []
    for name, each in results.items():
        for row in each.differences.to_pylist():
            if (row["method"], row["against"]) in COMPARED:
                ends = interval(row["low"], row["high"], 1, factor=100)
                rows.append([name, f"{row['method']} - {row['against']}", f"{100 * row['difference']:+.1f}", ends])
    return Table("Differences in points, paired over seeds", ("domains", "methods", "points", "95 %"), rows, words=2)


@recipe("slides/pseudo-labels", "The slides' variant: pseudo-labels by AVC alone", needs="PACS features")
def pseudo_labels(context: Context) -> Outcome:
    """Labels and thresholds both by AVC, beside the paper's rule (labels by softmax, thresholds by AVC)."""
    about, results = adapted(context)
    gaps = {name: _gap(each) for name, each in results.items()}
    return Outcome(
        about=about,
        tables=[differences(results)],
        claims=[
            claim(
                "Selecting by AVC alone gives what CBST+AVH gives.",
                rule="The 95 % interval over seeds of the difference lies within one point of 0 for every pair of domains.",
                effects=[_within_a_point(name, gap) for name, gap in gaps.items()],
                found="; ".join(f"{name} {signed(gap)} points" for name, gap in gaps.items()) + ".",
            )
        ],
    )


def _within_a_point(name: str, gap: Mean) -> Effect:
    return Effect(gap.value, gap.low, gap.high, 1.0, name, SMALL["seeds"], within=True)


def _gap(result: Adapted) -> Mean:
    """AVC less CBST+AVH in points, seed by seed, after the last round."""
    last: dict[tuple[str, int], float] = {}
    for row in sorted(result.rounds.to_pylist(), key=lambda row: row["round"]):
        last[row["method"], row["seed"]] = 100 * row["accuracy"]
    seeds = sorted(seed for method, seed in last if method == "avc")
    return mean_interval(np.array([last["avc", seed] - last["cbst+avh", seed] for seed in seeds]))
