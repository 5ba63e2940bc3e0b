"""Tables 3 and 4, Figures 6 and 21: self-training with CBST, CRST and CBST+AVH, and what each of them selects.

VisDA-17 at scale paper; PACS features with --data, else digits as pixels and the same digits at a fifth of their contrast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hardsight.paper.context import Context, fingerprint
from hardsight.paper.recipe import Claim, Outcome, Table, Value, claim, recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hardsight.adapt.running import Adapted

CLASSES = ("Aero", "Bike", "Bus", "Car", "Horse", "Knife", "Motor", "Person", "Plant", "Skateboard", "Train", "Truck", "Mean")
PRINTED: dict[str, list[float]] = {
    "Source (Saito et al., 2018)": [55.1, 53.3, 61.9, 59.1, 80.6, 17.9, 79.7, 31.2, 81.0, 26.5, 73.5, 8.5, 52.4],
    "MMD": [87.1, 63.0, 76.5, 42.0, 90.3, 42.9, 85.9, 53.1, 49.7, 36.3, 85.8, 20.7, 61.1],
    "DANN": [81.9, 77.7, 82.8, 44.3, 81.2, 29.5, 65.1, 28.6, 51.9, 54.6, 82.8, 7.8, 57.4],
    "ENT": [80.3, 75.5, 75.8, 48.3, 77.9, 27.3, 69.7, 40.2, 46.5, 46.6, 79.3, 16.0, 57.0],
    "MCD (printed only)": [87.0, 60.9, 83.7, 64.0, 88.9, 79.6, 84.7, 76.9, 88.6, 40.3, 83.0, 25.8, 71.9],
    "ADR (printed only)": [87.8, 79.5, 83.7, 65.3, 92.3, 61.8, 88.9, 73.2, 87.8, 60.0, 85.5, 32.3, 74.8],
    "Source (Zou et al., 2019)": [68.7, 36.7, 61.3, 70.4, 67.9, 5.9, 82.6, 25.5, 75.6, 29.4, 83.8, 10.9, 51.6],
    "CBST": [87.2, 78.8, 56.5, 55.4, 85.1, 79.2, 83.8, 77.7, 82.8, 88.8, 69.0, 72.0, 76.4],
    "CRST": [88.0, 79.2, 61.0, 60.0, 87.5, 81.4, 86.3, 78.8, 85.6, 86.6, 73.9, 68.8, 78.1],
    "CBST+AVH": [93.3, 80.2, 78.9, 60.9, 88.4, 89.7, 88.9, 79.6, 89.5, 86.8, 81.5, 60.0, 81.5],
}
SELECTED = {"CBST+AVH": [0.844, 0.118, 0.961, 20.84], "CBST/CRST": [0.848, 0.117, 0.976, 21.28]}
NEEDS = "VisDA-17 at scale paper; PACS features"
METHODS = "source,entropy,coral,cbst,crst,cbst+avh,avc"
SMALL: dict[str, Any] = {"rounds": 6, "epochs": 2, "seeds": 3, "hidden": 256, "limit": 800}
PAIRS = (("photo", "art_painting"), ("art_painting", "sketch"), ("sketch", "photo"))
VISDA_NETWORK = "torchvision:resnet101"
VISDA: dict[str, Any] = {
    "rounds": 20, "epochs": 1, "portion": "0.2:0.05:0.5", "source_portion": "0.065:0.0085:0.165", "balance": False,
    "flip_labels": True, "rule": "classification", "lrent": 0.25, "mrkld": 0.01, "optimizer": "sgd", "lr": 1e-4, "nesterov": True,
    "weight_decay": 5e-4, "decay_all": True, "schedule": "step", "step_size": 7, "gamma": 0.1, "batch_size": 16,
    "augment": "resized-crop=0.7:1,flip",
    "target_augment": "resized-crop=0.85:1,flip", "seeds": 3,
}  # fmt: skip
VISDA_SOURCE: dict[str, Any] = {
    "pretrained": "V1", "head_hidden": 512, "epochs": 30, "batch_size": 32, "lr": 1e-4, "nesterov": True, "weight_decay": 5e-4,
    "decay_all": True, "schedule": "step", "step_size": 7, "gamma": 0.1, "size": 224, "resize": "squash", "crop_pct": 0.875,
    "augment": "resized-crop=0.7:1,flip", "snapshot": False, "device": "auto", "workers": None,
}  # fmt: skip


def adapted(context: Context) -> tuple[str, dict[str, Adapted]]:
    """What it was run on, and every pair of domains, adapted once."""
    if context.scale == "paper":
        visda = context.data.require("visda", "Table 3 at scale paper")
        source = context.train(visda / "train", VISDA_NETWORK, **VISDA_SOURCE)
        options = {"model": source.directory, "methods": "source,cbst,crst,cbst+avh", **VISDA}
        return "VisDA-17, ResNet-101", {"VisDA-17": _adapt(context, visda / "train", visda / "validation", options)}
    path = context.data.find("pacs_features")
    options = {"methods": METHODS, **SMALL}
    length = f"{SMALL['rounds']} rounds, {SMALL['seeds']} seeds"
    about = f"{SMALL['limit']} samples of each domain at most, a head of {SMALL['hidden']} units, {length}"
    if path is None:
        faint = digits_as_features()
        return f"Digits as pixels, and the same at low contrast with noise. {about}", {"digits": _adapt(context, *faint, options)}
    results = {f"{a} to {b}": _adapt(context, f"{path}:{a}", f"{path}:{b}", options) for a, b in PAIRS}
    return f"PACS, features of EfficientNet-Lite0. {about}", results


def _adapt(context: Context, source: Any, target: Any, options: dict[str, Any]) -> Adapted:
    from hardsight import adapt

    place = context.cache.place("adapt", {"source": fingerprint(source), "target": fingerprint(target), **options})
    return adapt.run(source, target, place, progress=context.progress("adapting"), **options)


def digits_as_features() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Half of the digits as 64 pixels, and the other half at a fifth of the contrast with noise."""
    from hardsight.data.digits import load_digits

    images, labels = load_digits()
    pixels = images.reshape(len(images), -1).astype(np.float32) / 255
    faint = 0.4 + 0.2 * pixels + np.random.default_rng(0).normal(0, 0.04, pixels.shape).astype(np.float32)
    return (pixels[::2], labels[::2]), (faint[1::2], labels[1::2])


@recipe("avh/table3", "Adaptation: accuracy of source, CBST, CRST and CBST+AVH by class", printed=PRINTED, needs=NEEDS)
def table_3(context: Context) -> Outcome:
    """Every method from the same source model; the last round counts."""
    about, results = adapted(context)
    printed = Table("As printed: VisDA-17", ("method", *CLASSES), [[name, *row] for name, row in PRINTED.items()], digits=1)
    tables = [_classes(name, each) for name, each in results.items()]
    return Outcome(
        about=f"{about}. MCD and ADR are printed only. ENT is the method entropy; CORAL is run, which the paper does not have. "
        "The last round counts.",
        tables=[printed, *tables, *(_aligned(context) if context.scale == "small" else []), _differences(results)],
        claims=[_beats(results, "cbst+avh", "cbst"), _beats(results, "cbst+avh", "crst")],
        commands=["hardsight adapt pacs.npz:photo pacs.npz:sketch --methods source,cbst,crst,cbst+avh --seeds 3 -o run"],
    )


def _classes(name: str, result: Adapted) -> Table:
    rows = [row for row in result.accuracy.to_pylist() if row["accuracy"] is not None]
    classes = [key for key in rows[0] if key.startswith("class ") and not key.endswith(" std")]
    cells: list[list[Value]] = [
        [row["method"], *(_hundred(row[key]) for key in classes), _hundred(row["accuracy"]), _hundred(row["oracle_accuracy"])]
        for row in rows
    ]
    header = ("method", *(key.removeprefix("class ") for key in classes), "mean", "best round (oracle)")
    return Table(f"Ours: {name}, accuracy by class (%)", header, cells, digits=1)


def _aligned(context: Context) -> list[Table]:
    """MMD and DANN between source and target, on the same features: a table for each pair of domains."""
    from hardsight.domains.opening import Features, open_domain
    from hardsight.domains.scaling import standards
    from hardsight.paper.avh.feature_alignment import NAMES, STEPS, class_accuracy, predictions

    path = context.data.find("pacs_features")
    pairs: dict[str, Any] = {f"{a} to {b}": (f"{path}:{a}", f"{path}:{b}") for a, b in PAIRS}
    tables = []
    for name, pair in ({"digits": digits_as_features()} if path is None else pairs).items():
        source, target = (open_domain(each, limit=SMALL["limit"])[0] for each in pair)
        assert isinstance(source, Features) and isinstance(target, Features)
        ours, theirs = standards(source.values, target.values, "domain")
        domains = [(ours(source.values), source.labels), (theirs(target.values), np.full(len(target), -1))]
        rows: list[list[Value]] = []
        for penalty in ("none", "mmd", "dann"):
            predicted = predictions(context, domains, domains[1][0], penalty, range(SMALL["seeds"]))
            shares = 100 * class_accuracy(predicted, target.labels)  # (seeds, c)
            rows.append([NAMES[penalty], *shares.mean(0).tolist(), float(shares.mean()), float(shares.mean(1).std(ddof=1))])
        present = np.unique(target.labels[target.labels >= 0]).tolist()
        classes = [str(k) if target.class_names is None else target.class_names[k] for k in present]
        header = ("method", *classes, "mean", "± over seeds")
        note = f"A training of its own on the same features ({STEPS} steps, the last one counts): compare with no alignment."
        tables.append(Table(f"Ours: {name}, MMD and DANN, accuracy by class (%)", header, rows, digits=1, note=note))
    return tables


def _hundred(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _differences(results: dict[str, Adapted]) -> Table:
    rows: list[list[Value]] = []
    for name, each in results.items():
        for row in each.differences.to_pylist():
            if (row["method"], row["against"]) in (
                ("cbst+avh", "cbst"),
                ("cbst+avh", "crst"),
                ("cbst+avh", "source"),
                ("avc", "cbst"),
            ):
                ends = "–" if row["low"] is None else f"[{100 * row['low']:+.1f}, {100 * row['high']:+.1f}]"
                rows.append([name, f"{row['method']} - {row['against']}", f"{100 * row['difference']:+.1f}", ends])
    return Table("Differences in points, paired over seeds", ("domains", "methods", "points", "95 %"), rows, words=2)


def _beats(results: dict[str, Adapted], method: str, other: str) -> Claim:
    differences = {
        name: next(row for row in each.differences.to_pylist() if (row["method"], row["against"]) == (method, other))
        for name, each in results.items()
    }
    better = [row["low"] is not None and row["low"] > 0 for row in differences.values()]
    return claim(
        f"{method.upper()} is significantly better than {other.upper()}.",
        rule="The 95 % interval of the paired difference over seeds lies above 0 for every pair of domains.",
        holds=all(better),
        found="; ".join(f"{name} {100 * row['difference']:+.1f} points" for name, row in differences.items())
        + f"; {sum(better)} of {len(better)} beyond chance.",
    )


@recipe("avh/table4", "Adaptation: what CBST+AVH and CBST select at first", printed=SELECTED, needs=NEEDS)
def table_4(context: Context) -> Outcome:
    """The first round's selection: share that is right, AVH, AVC, confidence, norm."""
    about, results = adapted(context)
    rows: list[list[Value]] = [
        ["as printed", name, None, tp, None, avh, confidence, norm] for name, (tp, avh, confidence, norm) in SELECTED.items()
    ]
    means: dict[str, list[dict[str, Any]]] = {}
    for name, each in results.items():
        for row in each.selection.to_pylist():
            if row["method"] in ("cbst", "crst", "cbst+avh", "avc"):
                means.setdefault(row["method"], []).append(row)
                rows.append(
                    [
                        name,
                        row["method"],
                        row["selected"],
                        *(row[key] for key in ("true_positive_rate", "avh", "avc", "confidence", "norm")),
                    ]
                )
    pairs = list(zip(means["cbst+avh"], means["cbst"], strict=True))
    return Outcome(
        about=f"{about}. ENT, CORAL, MMD and DANN select nothing. "
        "The printed column AVH must be AVC: with 12 classes a confident sample's AVH lies below 1/12 = "
        "0.083, its AVC above.",
        tables=[
            Table(
                "Selected in the first round",
                ("domains", "method", "selected", "TP rate", "AVH", "AVC", "confidence", "norm"),
                rows,
                words=2,
            )
        ],
        claims=[
            _compared(pairs, "confidence", "Samples selected by AVH have a lower model confidence."),
            _compared(pairs, "norm", "Samples selected by AVH have a smaller norm."),
            claim(
                "AVH introduces no more wrong pseudo-labels than confidence.",
                rule="The TP rate of CBST+AVH is at most one point below that of CBST for every pair of domains.",
                holds=all(a["true_positive_rate"] > b["true_positive_rate"] - 0.01 for a, b in pairs),
                found="; ".join(f"{a['true_positive_rate']:.3f} against {b['true_positive_rate']:.3f}" for a, b in pairs) + ".",
            ),
        ],
    )


def _compared(pairs: list[tuple[dict[str, Any], dict[str, Any]]], name: str, sentence: str) -> Claim:
    return claim(
        sentence,
        rule=f"The mean {name} of CBST+AVH's first selection is below that of CBST's for every pair of domains.",
        holds=all(a[name] < b[name] for a, b in pairs),
        found="; ".join(f"{a[name]:.3f} against {b[name]:.3f}" for a, b in pairs) + ".",
    )


@recipe("avh/fig6", "Adaptation: accuracy by epoch for every method", needs=NEEDS)
def figure_6(context: Context) -> Outcome:
    """Mean class accuracy on the target after each round."""
    about, results = adapted(context)
    return Outcome(about=f"{about}. Mean over seeds.", figures={name: rounds(each, name) for name, each in results.items()})


def rounds(result: Adapted, title: str) -> Figure:
    """A line per method over the rounds."""
    from matplotlib.figure import Figure

    from hardsight.plots.dynamics import COLOURS

    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    rows = result.rounds.to_pylist()
    for colour, method in zip(COLOURS, dict.fromkeys(row["method"] for row in rows), strict=False):
        mine = [row for row in rows if row["method"] == method]
        times = sorted({row["round"] for row in mine})
        mean = [100 * float(np.mean([row["accuracy"] for row in mine if row["round"] == time])) for time in times]
        if len(times) > 1:
            axes.plot(times, mean, label=method, color=colour, marker="o", markersize=3.5)
        else:
            axes.axhline(mean[0], label=method, color=colour, linestyle=":")
    axes.set(xlabel="round", ylabel="mean class accuracy (%)", title=title)
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    axes.spines[["top", "right"]].set_visible(False)
    return figure


@recipe("slides/pseudo-labels", "The slides' variant: pseudo-labels by AVC alone", needs="PACS features")
def pseudo_labels(context: Context) -> Outcome:
    """Labels and thresholds both by AVC, beside the paper's rule (labels by softmax, thresholds by AVC)."""
    about, results = adapted(context)
    if context.scale == "paper":
        about += " (the variant is run at scale small)"
    known = {name: each for name, each in results.items() if "avc" in each.accuracy["method"].to_pylist()}
    return Outcome(
        about=about,
        tables=[_differences(known)] if known else [],
        claims=[
            claim(
                "Selecting by AVC alone gives what CBST+AVH gives.",
                rule="The mean accuracies of the two differ by less than one point for every pair of domains.",
                holds=all(abs(gap) < 0.01 for gap in (_gap(each) for each in known.values())) if known else None,
                found="; ".join(f"{name} {100 * _gap(each):+.1f} points" for name, each in known.items()) + ".",
            )
        ],
    )


def _gap(result: Adapted) -> float:
    reached = {row["method"]: row["accuracy"] for row in result.accuracy.to_pylist()}
    return float(reached["avc"] - reached["cbst+avh"])


@recipe("avh/fig21", "Images that AVH selects and softmax does not", needs="MNIST and USPS")
def figure_21(context: Context) -> Outcome:
    """Select a fifth by each rule; show what AVH alone selects and labels correctly."""
    from hardsight.adapt import select_pseudo_labels
    from hardsight.paper.avh.confusing import SHOWN, grid

    about, target, snapshot = _target(context)
    rows, head = snapshot.in_memory(), snapshot.head
    chosen = {
        method: select_pseudo_labels(features=rows.values, head=head, portion=0.2, method=method)
        for method in ("cbst", "cbst+avh")
    }
    only = chosen["cbst+avh"].kept & ~chosen["cbst"].kept
    right = chosen["cbst+avh"].labels == rows.labels
    row_of = {id: row for row, id in enumerate(target.ids)}
    nearest = np.asarray(head.logits(rows.values)).argsort(1)[:, -2]
    shown = np.flatnonzero(only & right)[:SHOWN]
    pictures = [(target.image(row_of[str(rows.ids[at])]), f"{rows.labels[at]}, could be {nearest[at]}") for at in shown]
    share = float(right[only].mean()) if only.any() else float("nan")
    counted: list[list[Value]] = [
        [name, int(each.kept.sum()), float((each.labels == rows.labels)[each.kept].mean())] for name, each in chosen.items()
    ]
    counted.append(["cbst+avh and not cbst", int(only.sum()), share])
    return Outcome(
        about=about,
        tables=[
            Table(
                "Selected, at a portion of 0.2",
                ("rule", "samples", "right"),
                counted,
            )
        ],
        figures={"Selected and labeled correctly by AVH, not selected by softmax": grid([pictures])} if pictures else {},
        claims=[
            claim(
                "AVH selects and labels correctly images that softmax does not select.",
                rule="There are such images, and most of what AVH alone selects is labeled correctly.",
                holds=bool((only & right).any()) and share > 0.5,
                found=f"{int(only.sum())} images are selected by AVH alone, {100 * share:.0f} % of them labeled correctly.",
            )
        ],
    )


def _target(context: Context) -> tuple[str, Any, Any]:
    """A source model on a domain that it was not trained on: MNIST to USPS, or digits to faint digits."""
    from dataclasses import replace
    from functools import partial

    from hardsight.data import Degradation, degrade, open_data
    from hardsight.data.arrays import ImageArrays

    written = context.handwriting(train=5000)
    if written.name == "MNIST" and context.data.has("usps"):
        trained = context.train(written.train, "lenet", epochs=3, batch_size=64, snapshot=False)
        usps = open_data(context.data.require("usps", "this recipe"))
        target = usps.take(np.flatnonzero(np.array(usps.columns["split"]) == "test"))
        return (
            "LeNet trained on 5,000 images of MNIST, USPS's test images as target.",
            target,
            context.extract(trained.directory, target),
        )
    digits = (
        context
        if written.name == "digits"
        else Context(context.scale, cache=context.cache, seed=context.seed, report=context.report)
    )
    written = digits.handwriting()
    trained = digits.train(
        written.train, "DigitsCNN", epochs=10, batch_size=32, optimizer="adamw", lr=2e-3, weight_decay=0.0, snapshot=False
    )
    test = written.test
    pixels = np.stack([np.asarray(degrade(test.image(row), Degradation("contrast", 0.2), id)) for row, id in enumerate(test.ids)])
    target = replace(test, kind="npy", images=ImageArrays([partial(np.asarray, pixels)], [len(pixels)], []), columns={})
    return (
        "A small CNN trained on digits, held-out digits at a fifth of the contrast as target.",
        target,
        digits.extract(trained.directory, target),
    )
