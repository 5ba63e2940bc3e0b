"""Tables 3 and 4: error on CIFAR-100 and on ImageNet, by loss. At small scale both run on the built-in digits."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardsight_papers.context import Context
from hardsight_papers.recipe import Outcome, Table, claim, recipe
from hardsight_papers.seed_statistics import difference, effect
from hardsight_papers.verdicts import POINTS, Effect

ROWS: dict[str, tuple[str, dict[str, Any]]] = {  # name in Table 3: loss and its options
    "Center": ("center", {"pull": 0.01}),
    "L-Softmax": ("l_softmax", {"m": 2}),
    "Softmax": ("softmax", {}),
    "L-GM (α = 0.1)": ("lgm", {"alpha": 0.1, "likelihood": 0.1}),
    "L-GM (α = 0.2)": ("lgm", {"alpha": 0.2, "likelihood": 0.1}),
    "L-GM (α = 0.3)": ("lgm", {"alpha": 0.3, "likelihood": 0.1}),
}
PRINTED_3 = {  # error (%) and its deviation on C100, and on C100+
    "Center": (24.85, 0.06, 21.05, 0.03),
    "L-Softmax": (24.83, 0.05, 20.98, 0.04),
    "Softmax": (25.61, 0.07, 21.60, 0.04),
    "L-GM (α = 0.1)": (23.74, 0.08, 20.94, 0.03),
    "L-GM (α = 0.2)": (23.04, 0.08, 20.85, 0.04),
    "L-GM (α = 0.3)": (23.80, 0.06, 20.76, 0.03),
}
PRINTED_4 = {  # 1-crop top-1, top-5; 10-crop top-1, top-5
    "Softmax": ("23.5 ± 0.2", "7.55 ± 0.08", "22.6 ± 0.2", "6.92 ± 0.04"),
    "L-GM": ("22.7 ± 0.2", "7.14 ± 0.08", "21.9 ± 0.1", "6.05 ± 0.03"),
}
NETWORKS = {"cifar100_folder": "hardsight_papers.networks:lgm_vgg13", "imagenet": "torchvision:resnet101"}  # at scale paper
SEEDS = 3
SMALL: dict[str, Any] = {
    "epochs": 12, "batch_size": 64, "optimizer": "adamw", "lr": 2e-3, "schedule": "cosine", "snapshot": False,
}  # fmt: skip
CIFAR100: dict[str, Any] = {  # of the authors' code: 120,000 steps of 128, the rate divided by 10 at 60,000 and 90,000
    "epochs": 307, "batch_size": 128, "lr": 0.1, "optimizer_options": {"nesterov": True}, "weight_decay": 5e-4,
    "schedule": "step", "schedule_options": {"milestones": (153, 230)}, "preprocessing": {"scaling": "centered"},
    "snapshot": False,
}  # fmt: skip
IMAGENET: dict[str, Any] = {  # the usual protocol: 90 epochs of 256, the rate divided by 10 every 30
    "epochs": 90, "batch_size": 256, "lr": 0.1, "weight_decay": 1e-4, "schedule": "step", "schedule_options": {"step_size": 30},
    "augment": "resized-crop,flip", "snapshot": False,
}  # fmt: skip


def with_head_rate(options: dict[str, Any], loss: str) -> dict[str, Any]:
    """The options with the head's learning rate: 10 times that of the network, except for softmax."""
    rate = 1.0 if loss == "softmax" else 10.0
    return {**options, "optimizer_options": {**options.get("optimizer_options", {}), "head_rate": rate}}


def step_up(context: Context, loss: str) -> dict[str, Any]:
    """At scale paper the margin of L-GM doubles every 5,000 steps from 0.1 on, as in the authors' solver."""
    return {"step_up": (0.1, 2, 5000)} if context.scale == "paper" and loss == "lgm" else {}


def setting(context: Context, small: dict[str, Any], paper: dict[str, Any], data: str) -> tuple[Any, str, dict[str, Any], str]:
    """Data, network, options and a word for the data, at the scale that is asked for."""
    if context.scale == "paper":
        path = context.data.require(data, "this table at scale paper")
        return path, NETWORKS[data], paper, data.removesuffix("_folder")
    return "digits", "DigitsCNN", small, "digits"


@recipe(
    "lgm/table3", "Error on CIFAR-100 without and with augmentation, by loss", printed={"error": PRINTED_3}, needs="CIFAR-100"
)
def table_3(context: Context) -> Outcome:
    """Mean and deviation over seeds; `+` is with random crops (and mirror images, where these make sense)."""
    data, network, options, name = setting(context, SMALL, CIFAR100, "cifar100_folder")
    plus = "flip,crop=4" if context.scale == "paper" else "crop=1"
    errors: dict[str, list[np.ndarray]] = {}
    for row, (loss, loss_options) in ROWS.items():
        errors[row] = []
        for augment in ("none", plus):
            seeds = range(context.seed, context.seed + SEEDS)
            runs = [
                context.train(data, network, loss=loss, loss_options=loss_options | step_up(context, loss), augment=augment,
                              seed=seed, **with_head_rate(options, loss))
                for seed in seeds
            ]  # fmt: skip
            errors[row].append(np.array([100 * (1 - run.history[-1]["test"]["accuracy"]) for run in runs]))
    rows = [
        (row, *(f"{x.mean():.2f} ± {x.std(ddof=1):.2f}" for x in errors[row]),
         f"{printed[0]:.2f} ± {printed[1]:.2f}", f"{printed[2]:.2f} ± {printed[3]:.2f}")
        for row, printed in PRINTED_3.items()
    ]  # fmt: skip
    mean = {row: np.array([x.mean() for x in pair]) for row, pair in errors.items()}
    others = np.min([mean[row] for row in ("Center", "L-Softmax", "Softmax")], axis=0)  # (2,)
    best = np.min([mean[row] for row in ROWS if row.startswith("L-GM")], axis=0)
    here = context.scale == "paper"
    gaps = [_ahead(errors, k, column) for k, column in enumerate((name, f"{name}+"))]
    return Outcome(
        about=f"{name}, {network}, {options['epochs']} epochs, {SEEDS} seeds; ± is the deviation over seeds. + with {plus}.",
        tables=[
            Table("Error (%)", ("loss", name, f"{name}+", "C100, printed", "C100+, printed"), rows,
                  note="" if here else "Not comparable in size: digits instead of CIFAR-100, which --scale paper runs.")
        ],
        claims=[
            claim(
                "L-GM has a lower error than softmax, center and L-Softmax, without and with augmentation.",
                rule="The error at the best of the three alphas is below that of the best other loss, in both columns: the 95 % "
                "intervals over seeds of the differences.",
                effects=gaps if here else [],
                found=f"L-GM at best {best[0]:.2f} and {best[1]:.2f}, the others at best {others[0]:.2f} and {others[1]:.2f}"
                + ("." if here else ", on digits."),
            )
        ],
    )  # fmt: skip


def _ahead(errors: dict[str, list[np.ndarray]], column: int, name: str) -> Effect:
    """By how much the best L-GM has fewer errors than the best other loss, in points."""
    ours, others = (
        min((pair[column] for row, pair in errors.items() if row.startswith("L-GM") == lgm), key=np.mean) for lgm in (True, False)
    )
    return effect(difference(others, ours), POINTS, len(ours), name)


@recipe("lgm/table4", "Top-1 and top-5 error on ImageNet, 1-crop and 10-crop", printed={"error": PRINTED_4}, needs="ImageNet")
def table_4(context: Context) -> Outcome:
    """Softmax beside L-GM with alpha 0.01 and lambda 0.1."""
    data, network, options, name = setting(context, SMALL, IMAGENET, "imagenet")
    if context.scale != "paper":
        options = {**options, "size": 8, "preprocessing": {"crop_pct": 0.8}}  # so that corners differ from the center
    errors: dict[str, list[float]] = {}
    for row, loss, loss_options in (("Softmax", "softmax", {}), ("L-GM", "lgm", {"alpha": 0.01, "likelihood": 0.1})):
        further = with_head_rate(options, loss)
        run = context.train(data, network, loss=loss, loss_options=loss_options, top_k=5, crops=10, **further)
        errors[row] = [100 * (1 - share) for share in crops_and_tops(run.history[-1])]
    columns = ("1-crop top-1", "1-crop top-5", "10-crop top-1", "10-crop top-5")
    here = context.scale == "paper"
    rows: list[tuple[Any, ...]] = [(row, *ours, *PRINTED_4[row]) for row, ours in errors.items()]
    return Outcome(
        about=f"{name}, {network}, {options['epochs']} epochs, one seed; alpha 0.01, lambda 0.1.",
        tables=[
            Table("Error (%)", ("loss", *columns, *(f"{column}, printed" for column in columns)), rows, digits=2,
                  note="" if here else "Not comparable in size: digits, whose mirror images are no digits, instead of ImageNet.")
        ],
        claims=[
            claim(
                "L-GM has a lower error than softmax in all four columns.",
                rule="Every error of L-GM is below that of softmax.",
                holds=bool((np.array(errors["L-GM"]) < np.array(errors["Softmax"])).all()) if here else None,
                found="; ".join(f"{row} {', '.join(f'{value:.2f}' for value in values)}" for row, values in errors.items())
                + ("." if here else ", on digits."),
            )
        ],
    )  # fmt: skip


def crops_and_tops(epoch: dict[str, Any]) -> list[float]:
    """Accuracy of an epoch's test set, which ImageNet calls val: 1-crop top-1 and top-5, 10-crop top-1 and top-5."""
    test = epoch["val" if "val" in epoch else "test"]
    return [test["accuracy"], test["top5"], test["accuracy_10_crops"], test["top5_10_crops"]]
