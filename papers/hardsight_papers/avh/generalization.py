"""Table 5: domain generalization on PACS with the AVH loss, and the slides' row with another network."""

from __future__ import annotations

from typing import Any

import numpy as np

import hardsight
from hardsight.data import load_digits
from hardsight.domains import Generalized
from hardsight.screen import interval, percent
from hardsight_papers.avh.printed_correlations import follows
from hardsight_papers.avh.trainings import IMAGENET
from hardsight_papers.context import Context, fingerprint
from hardsight_papers.recipe import Outcome, Table, Value, claim, recipe
from hardsight_papers.seed_statistics import effect_of

DIGIT_DOMAINS = ("plain", "faint", "noisy", "inverted")
DOMAINS = ("Painting", "Cartoon", "Photo", "Sketch", "Avg")
PRINTED: dict[str, list[float]] = {
    "AlexNet": [62.86, 66.97, 89.50, 57.51, 69.21],
    "MLDG": [66.23, 66.88, 88.00, 58.96, 70.01],
    "MetaReg": [69.82, 70.35, 91.07, 59.26, 72.62],
    "Feature-critic": [64.89, 71.72, 89.94, 61.85, 72.10],
    "Baseline CNN-10": [66.46, 67.88, 89.70, 51.72, 68.94],
    "CNN-10 + AVH": [72.02, 66.42, 90.12, 61.26, 72.46],
}
NOT_DIGITS = "MNIST and USPS are not among them: they are two domains, and leaving one out leaves a single one to train on."
SLIDES = {"Baseline CNN-9": [66.46, 67.88, 89.70, 51.72, 68.94], "CNN-9 + AVH": [71.56, 69.25, 89.93, 60.86, 72.90]}
LOSSES = "softmax,mldg,metareg,feature-critic,drm,avh"
SMALL: dict[str, Any] = {
    "losses": f"{LOSSES},cosface", "scales": "5,10,20", "epochs": 8, "hidden": 256, "seeds": 3, "limit": 800,
    "keep_models": False,
}  # fmt: skip
ON_PACS: dict[str, Any] = {
    "epochs": 30, "batch_size": 40, "lr": 1e-3, "optimizer_options": {"momentum": 0.9, "nesterov": False}, "weight_decay": 5e-4,
    "augment": "resized-crop=0.8:1,flip", "selection": "validation", "seeds": 3,
}  # fmt: skip
CNN10: dict[str, Any] = {"model_options": {"size": 224}, "losses": LOSSES, "scales": "5,10,20"}
ALEXNET: tuple[str, dict[str, Any]] = ("torchvision:alexnet", {"losses": "softmax"})
CNN10_IMAGENET: dict[str, Any] = {
    "model_options": {"size": 224}, "epochs": 90, "batch_size": 256, "lr": 0.1, "weight_decay": 1e-4,
    "optimizer_options": {"momentum": 0.9, "decay_all": True}, "schedule": "step",
    "schedule_options": {"milestones": (30, 60), "gamma": 0.1}, "preprocessing": {"crop_pct": 0.875},
    "augment": "resized-crop=0.08:1,flip", "snapshot": False, "device": "auto", "workers": None,
}  # fmt: skip


def generalized(context: Context) -> tuple[str, Generalized]:
    """What it was run on, and accuracy on each domain when it was never seen."""
    if context.scale == "paper":
        return "PACS, CNN-10 from ImageNet, 3 seeds", _on_pacs(context, "cnn10", CNN10_IMAGENET, CNN10)
    about, result = generalized_features(context, SMALL)
    about += f"; {SMALL['limit']} samples of each domain at most, a head of {SMALL['hidden']} units"
    return f"{about}, {SMALL['epochs']} epochs, {SMALL['seeds']} seeds", result


def _on_pacs(context: Context, network: str, before: dict[str, Any], options: dict[str, Any]) -> Generalized:
    """A network trained on ImageNet, then on the images of PACS, each domain left out in turn."""
    pacs = context.data.require("pacs", "Table 5 at scale paper")
    trained = context.train(context.data.require("imagenet", "Table 5 at scale paper"), network, **before)
    weights = trained.run / "model" / "model.safetensors"
    options = {"model": network, "lists": pacs / "splits", "weights": weights, **ON_PACS, **options}
    place = context.cache.place("generalize", {"data": fingerprint(pacs), **options})
    return hardsight.generalize(pacs / "kfold", place, progress=context.progress("leaving domains out"), **options)


def generalized_features(context: Context, options: dict[str, Any]) -> tuple[str, Generalized]:
    """The same on features of PACS where --data has them, or on digits in four domains."""
    path = context.data.find("pacs_features")
    data: Any = path or digits_with_domains()
    about = "PACS, features of EfficientNet-Lite0" if path else "Digits as pixels in four domains: plain, faint, noisy, inverted"
    place = context.cache.place("generalize", {"data": "digits" if path is None else fingerprint(path), **options})
    return about, hardsight.generalize(data, place, progress=context.progress("leaving domains out"), **options)


def digits_with_domains() -> hardsight.Snapshot:
    """The same with a column for the domain, as `hardsight.generalize` takes it."""
    pixels, labels, domains = digits_in_four_domains()
    ids = [str(row) for row in range(len(labels))]
    return hardsight.Snapshot(pixels, labels=labels, ids=ids, columns={"domain": domains.tolist()})


def digits_in_four_domains() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(n, 64) pixels, (n,) labels and (n,) domains, each with a quarter of the digits."""
    images, labels = load_digits()
    pixels = images.reshape(len(images), -1).astype(np.float32) / 255
    domain = np.arange(len(pixels)) % 4
    noise = np.random.default_rng(0).uniform(-0.4, 0.4, pixels.shape).astype(np.float32)
    pixels = np.select([domain[:, None] == k for k in range(4)], [pixels, 0.4 + 0.3 * pixels, pixels + noise, 1 - pixels])
    return pixels.astype(np.float32), labels, np.array(DIGIT_DOMAINS)[domain]


TITLE = "Domain generalization: softmax and the AVH loss on an unseen domain"


@recipe("avh/table5", TITLE, printed=PRINTED, needs="PACS features; PACS and ImageNet at scale paper")
def table_5(context: Context) -> Outcome:
    """Each domain left out in turn; the epoch is chosen on held-out samples of the others."""
    return _outcome(context, PRINTED, "As printed: PACS")


@recipe("slides/table5", "Domain generalization: the slides' rows for CNN-9, beside Table 5's network", printed=SLIDES)
def slides_table_5(context: Context) -> Outcome:
    """The slides' rows: other numbers for AVH than the paper's, and the paper's baseline under another name.

    The slides do not say what CNN-9 is, so what is run is what Table 5 runs.
    """
    return _outcome(context, SLIDES, "As printed on the slides: PACS")


def _outcome(context: Context, printed: dict[str, list[float]], title: str) -> Outcome:
    about, result = generalized(context)
    rows = result.accuracy.to_pylist()
    if context.scale == "paper" and "AlexNet" in printed:  # the network of Figure 4
        network, options = ALEXNET
        plain = _on_pacs(context, network, {**IMAGENET, "degradations": (), "lr": 0.01}, options)
        rows += [{**row, "loss": "AlexNet"} for row in plain.accuracy.to_pylist()]
    places = [name.removesuffix(" std") for name in rows[0] if name.endswith(" std")]
    cells: list[list[Value]] = [[row["loss"], *(percent(row[place], row[f"{place} std"], 1) for place in places)] for row in rows]
    differences = {(row["loss"], row["domain"]): row for row in result.differences.to_pylist() if row["against"] == "softmax"}
    average, wrong = differences["avh", "average"], wrong_averages(printed)
    scales = ", ".join(f"{domain} {scale:g}" for (loss, domain), scale in result.scales.items() if loss == "avh")
    return Outcome(
        about=f"{about}. The scale of the AVH loss, chosen for each unseen domain by leaving out each training domain: {scales}.",
        tables=[
            Table(title, ("method", *DOMAINS), [[name, *row] for name, row in printed.items()], digits=2),
            Table("Ours: accuracy on the unseen domain (%)", ("loss", *places), cells),
            _gaps(differences, places),
        ],
        claims=[
            claim(
                "The AVH loss is better than softmax on domains never seen.",
                rule="The 95 % interval of the paired difference of the average over seeds lies above 0.",
                effects=[effect_of(average)],
                found=f"{_points(average)} points; by domain "
                + ", ".join(f"{place} {100 * differences['avh', place]['difference']:+.1f}" for place in places[:-1])
                + ".",
            ),
            claim(
                "The printed averages follow from the printed rows.",
                rule="The mean of four domains, rounded or cut off at the last printed digit, is the printed average.",
                exact=not wrong,
                found="; ".join(f"{name}: {value:.4f}" for name, value in wrong.items()) + "." if wrong else "All do.",
            ),
        ],
        commands=[f"hardsight generalize pacs.npz --losses {SMALL['losses']} --scales 5,10,20 --seeds 3 -o run"],
    )


def _gaps(differences: dict[tuple[str, str], dict[str, Any]], places: list[str]) -> Table:
    """Every loss against softmax, on each domain and on average."""
    losses = dict.fromkeys(loss for loss, _ in differences)
    rows: list[list[Value]] = [[loss, *(_points(differences[loss, place]) for place in places)] for loss in losses]
    title = "Ours: difference from softmax in points, paired over seeds, with 95 % intervals"
    return Table(title, ("loss", *places), rows, note=NOT_DIGITS)


def _points(row: dict[str, Any]) -> str:
    return f"{100 * row['difference']:+.1f} {interval(row['low'], row['high'], 1, factor=100)}"


def wrong_averages(printed: dict[str, list[float]]) -> dict[str, float]:
    """The mean over four domains where the printed average does not follow from it."""
    means = {name: float(np.mean(row[:4])) for name, row in printed.items()}
    return {name: mean for name, mean in means.items() if not follows(mean, f"{printed[name][4]:.2f}")}
