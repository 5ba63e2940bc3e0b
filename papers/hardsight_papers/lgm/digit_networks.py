"""The networks of the L-GM paper's experiments on MNIST: one CNN, trained with each loss, and attacked by FGSM."""

from __future__ import annotations

from typing import Any

from hardsight.attacks import Attack
from hardsight.stats import wilson
from hardsight.training import Trained
from hardsight_papers.context import Context
from hardsight_papers.recipe import Claim, claim
from hardsight_papers.verdicts import over

NAMES = {"softmax": "Softmax", "center": "Center", "l_softmax": "L-Softmax", "gm": "GM (α = 0)", "lgm": "L-GM (α = 1)"}
LOSS_OPTIONS: dict[str, dict[str, Any]] = {
    "softmax": {},
    "center": {"pull": 0.01},
    "l_softmax": {"m": 2},
    "gm": {"likelihood": 0.1},
    "lgm": {"alpha": 1.0, "likelihood": 0.1, "warmup_epochs": 1},
}
HEAD_RATE = 30.0  # of class vectors and means; a linear layer with a bias learns at the common rate
EPSILONS = (0.1, 0.2, 0.3)
IN_THE_PLANE: dict[str, Any] = {"num_features": 2, "relu": False, "hidden": 256, "channels": (16, 32), "prelu": True}
HOW_CHOSEN = (
    " The network, its rate and length were chosen by softmax alone, trained without the last 5,000 training images of MNIST and "
    "tested on them, after another network of two features had been seen to reach 97.6 % of the test images."
)
PAPER: dict[str, Any] = {  # the authors' solver for MNIST
    "epochs": 50, "batch_size": 64, "augment": "none", "optimizer": "sgd", "weight_decay": 1e-3, "schedule": "step",
    "schedule_options": {"step_size": 5, "gamma": 0.7}, "optimizer_options": {"momentum": 0.9, "nesterov": True},
}  # fmt: skip
PAPER_RATES = {2: 0.01, 100: 0.02}  # by number of features
STEP_UP = {"alpha": 1.0, "likelihood": 0.1, "step_up": (0.001, 10, 1000)}  # the margin rises with the steps
EPOCHS = {"MNIST": 6, "MNIST in the plane": 8, "digits": 20}


def network(context: Context, num_features: int) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """The paper's CNN, or at small scale LeNet with the last ReLU left out, which trains in minutes; and how it learns.

    With two features LeNet underfits: it has a hidden layer before them, and learned slopes below zero.
    """
    name = "MNIST" if context.data.has("mnist") else "digits"
    if context.scale == "paper":
        return "mnist_cnn", {"num_features": num_features}, {**PAPER, "lr": PAPER_RATES[num_features]}
    batch_size = 64 if name == "digits" else 128
    if num_features == 2:
        epochs = EPOCHS["digits" if name == "digits" else "MNIST in the plane"]
        return "lenet", IN_THE_PLANE, {"epochs": epochs, "batch_size": batch_size, "lr": 2e-3, "augment": "crop=1"}
    learning = {"epochs": EPOCHS[name], "batch_size": batch_size, "lr": 1e-3, "augment": "crop=2"}
    return "lenet", {"num_features": num_features, "relu": False}, learning


def trained(context: Context, loss: str, num_features: int) -> Trained:
    """The CNN with a loss: 2 features for figures, 100 for numbers. At scale `paper` 50 epochs of the paper's CNN."""
    digits = context.handwriting()
    name, model_options, learning = network(context, num_features)
    settings: dict[str, Any] = {"optimizer": "adamw", "schedule": "cosine", "snapshot": True, **learning}
    head_rate = 1.0 if loss == "softmax" else HEAD_RATE
    full = context.scale == "paper"
    rate = {} if full else {"head_rate": head_rate}
    settings["loss_options"] = STEP_UP if full and loss == "lgm" else LOSS_OPTIONS[loss]
    settings["optimizer_options"] = {**settings.get("optimizer_options", {}), **rate}
    return context.train(digits.train, name, model_options=model_options, loss=loss, watch={"test": digits.test}, **settings)


def attacked(context: Context, loss: str, num_features: int = 100) -> Attack:
    """The test images by FGSM at epsilon 0, 0.1, 0.2 and 0.3."""
    return context.attack(trained(context, loss, num_features), context.handwriting().test, NAMES[loss], epsilon=EPSILONS)


def reaches(context: Context, loss: str, num_features: int, wanted: float) -> Claim:
    """Whether a network is as accurate on MNIST as it should be; not comparable on other digits."""
    last = trained(context, loss, num_features).history[-1]["test"]
    low, high = wilson(round(last["accuracy"] * last["n"]), last["n"])
    name = context.handwriting().name
    return claim(
        f"{NAMES[loss]} with {num_features} features reaches {100 * wanted:.1f} % on MNIST.",
        rule="Test accuracy after the last epoch, with Wilson's interval. The limit is ours, not the paper's.",
        effects=[over(100 * wanted, 100 * last["accuracy"], 100 * low, 100 * high, n=last["n"])] if name == "MNIST" else [],
        found=f"{100 * last['accuracy']:.2f} % [{100 * low:.2f}, {100 * high:.2f}] on {name}.",
    )


def about(context: Context, num_features: int) -> str:
    """What was trained on what, in a sentence."""
    digits = context.handwriting()
    name, _, learning = network(context, num_features)
    chosen = HOW_CHOSEN if num_features == 2 and context.scale != "paper" else ""
    pixels = learning["augment"].removeprefix("crop=")
    shifts = "" if pixels == "none" else f", shifts by up to {pixels} pixel{'s' * (pixels != '1')}"
    return (
        f"{digits.name}, {len(digits.train):,} training and {len(digits.test):,} test images; {name} with "
        f"{num_features} features, {learning['epochs']} epochs of {'SGD' if context.scale == 'paper' else 'AdamW'}{shifts}, one "
        f"seed for all losses.{chosen}"
    )
