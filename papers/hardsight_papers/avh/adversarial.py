"""Figure 22 and appendix G: the path of an adversarial sample in angle and norm, in a plain and in a hyperspherical network.

The sample goes up the gradient of its own class's loss in small steps, until it is predicted as another class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hardsight.data import ImageData
from hardsight_papers.arrays import as_pixels
from hardsight_papers.avh.embeddings import in_two_features
from hardsight_papers.context import Context
from hardsight_papers.drawing import Figure, panels
from hardsight_papers.plane import embedding_figure
from hardsight_papers.recipe import Claim, Outcome, Table, Value, claim, recipe

STEPS, STEP, ATTACKED = 40, 0.02, 200  # of pixels in 0..1
NETWORKS = {"digits": ("DigitsCNN", "SphereDigitsCNN"), "MNIST": ("lenet", "SphereLeNet")}
SHRUNK = 0.95  # of the first norm
TRAINING: dict[str, Any] = {
    "epochs": 12, "batch_size": 32, "optimizer": "adamw", "lr": 2e-3, "weight_decay": 0.0, "snapshot": False,
}  # fmt: skip


@dataclass(frozen=True)
class Paths:
    """(steps + 1, n) what an attacked sample looks like to the network after each step; all are classified rightly at first."""

    own_angle: np.ndarray
    norm: np.ndarray
    avh: np.ndarray
    switched: np.ndarray  # whether it is predicted as another class
    described: dict[str, Any]  # what the paths have in common, by `hardsight attack`

    @property
    def first_switch(self) -> np.ndarray:
        """(n,) the step at which each is first misclassified; -1 for never."""
        return np.where(self.switched.any(0), self.switched.argmax(0), -1)


@recipe("avh/fig22", "An adversarial sample's path in angle and norm, plain and normalized networks", needs="MNIST")
def figure_22(context: Context) -> Outcome:
    """Attack held-out digits in a softmax network, and in one whose convolutions and loss look at angles alone."""
    written = context.handwriting(train=5000, test=ATTACKED)
    plain_name, sphere_name = NETWORKS[written.name]
    plain_run = context.train(written.train, plain_name, loss="softmax", **TRAINING)
    sphere_run = context.train(written.train, f"hardsight_papers.networks:{sphere_name}", loss="avh", **TRAINING)
    from hardsight_papers import networks  # after training, which says if torch is missing

    sphere_cnn = networks.trained_network(sphere_run, getattr(networks, sphere_name)())
    plain = _attacked(context, plain_run, written.test, "plain CNN")
    sphere = _attacked(context, (sphere_run.run.name, sphere_cnn), written.test, "SphereNet-style CNN")
    attacked = {"plain CNN": plain, "SphereNet-style CNN": sphere}
    return Outcome(
        about=f"{len(written.test)} held-out images of {written.name}, {STEPS} steps of {STEP} along the sign of the gradient. "
        "The SphereNet-style CNN has hyperspherical convolutions, and learns with the AVH loss.",
        tables=[_table(attacked)],
        figures={"Paths of adversarial samples": paths_figure(attacked), "A path in the plane": path_in_the_plane(context)},
        claims=[
            shrinks_first(plain.described),
            claim(
                "An adversarial sample has a worse AVH than the original, though people see no difference.",
                rule="AVH is higher at the switch than at the start for at least 95 % of the samples that switch.",
                holds=_worse(plain) >= 0.95,
                found=f"For {100 * _worse(plain):.1f} %.",
            ),
        ],
    )


def path_in_the_plane(context: Context) -> Figure:
    """One image on its way to another class, among the held-out digits in the two features of Figure 2's network."""
    import torch

    from hardsight.attacks import fgsm
    from hardsight_papers.networks import PlanarLeNet, trained_network

    written, _, trained, snapshot = in_two_features(context)
    rows = snapshot.in_memory()
    network: Any = trained_network(trained, PlanarLeNet())
    assert rows.labels is not None
    (mean,), (std,) = network.preprocessing.mean, network.preprocessing.std

    def plane(images: Any) -> Any:  # (b, 1, 28, 28) pixels from 0 to 1 -> (b, 2)
        return network.trunk((images - mean) / std)

    pixels, labels, _ = as_pixels(written.test, flat=False)
    image = torch.nn.functional.interpolate(torch.tensor(pixels), (28, 28), mode="bilinear", antialias=True)
    own = torch.tensor(labels)
    with torch.no_grad():
        start = int((network.head(plane(image)).argmax(1) == own).nonzero()[0])  # the first that is right
    at, path = image[start : start + 1], []
    for _ in range(2 * STEPS):
        with torch.no_grad():
            path.append(plane(at)[0].numpy())
            if int(network.head(plane(at)).argmax()) != labels[start]:
                break
        at = fgsm(lambda x: network.head(plane(x)), at, own[start : start + 1], STEP)
    assert snapshot.head is not None
    figure = embedding_figure(np.asarray(rows.values), rows.labels, head=snapshot.head, title=f"A {labels[start]} under attack")
    figure.axes[0].plot(*np.array(path).T, color="#222222", marker=".", markersize=4, linewidth=1.5, zorder=5)
    return figure


def _attacked(context: Context, model: Any, test: ImageData, name: str) -> Paths:
    """`hardsight.attack` on the test images; the paths of those that are classified rightly."""
    from hardsight.attacks import describe_paths

    done = context.attack(model, test, f"the {name}", epsilon=STEPS * STEP, path_steps=STEPS, trajectories=ATTACKED)
    table = done.trajectories
    angle, norm, avh, predicted, label = (
        table[column].to_numpy().reshape(-1, STEPS + 1).T for column in ("own_angle", "norm", "avh", "predicted", "label")
    )  # (steps + 1, n) each
    return Paths(angle, norm, avh, predicted != label, describe_paths(table))


def shrinks_first(described: dict[str, Any]) -> Claim:
    """Whether norms shrink first and angles turn later, by what `hardsight attack` says of paths."""
    some = described["switched"] > 0
    return claim(
        "On its way to another class, an adversarial sample first shrinks its norm, then turns its angle.",
        rule="Of the correct samples that switch, more than half do half of the fall of their norm before half of the turn of "
        "their angle (shrink_first of `hardsight attack`), and the median of their least norms is at most "
        f"{100 * SHRUNK:.0f} % of the first.",
        holds=described["shrink_first"] > 0.5 and described["least_norm"] <= SHRUNK if some else None,
        found=f"{described['switched']} samples switch; {100 * described['shrink_first']:.0f} % shrink first, and the median of "
        f"the least norms is {100 * described['least_norm']:.0f} % of the first."
        if some
        else "No sample switches.",
    )


def _worse(paths: Paths) -> float:
    first = paths.first_switch
    chosen = np.flatnonzero(first > 0)
    return float(np.mean([paths.avh[first[row], row] > paths.avh[0, row] for row in chosen])) if len(chosen) else float("nan")


def _table(attacked: dict[str, Paths]) -> Table:
    rows: list[list[Value]] = []
    for name, paths in attacked.items():
        last = paths.first_switch
        chosen = np.flatnonzero(last > 0)
        at = (last[chosen], chosen)
        steps = float(last[chosen].mean()) if len(chosen) else None
        row: list[Value] = [name, int((~paths.switched[0]).sum()), len(chosen), steps]
        for values in (np.degrees(paths.own_angle), paths.norm, paths.avh):
            row += [float(values[0, chosen].mean()), float(values[at].mean())] if len(chosen) else [None, None]
        rows.append(row)
    both = [words for name in ("angle", "norm", "AVH") for words in (f"{name} before", "at the switch")]
    return Table("Means over the samples that switch", ("network", "correct", "switched", "steps", *both), rows)


def paths_figure(attacked: dict[str, Paths]) -> Figure:
    """Angle against norm: one path from start to switch in color, thirty more in gray, for each network."""
    figure, plots = panels(len(attacked), width=10 / len(attacked), height=4)
    for axes, (name, paths) in zip(plots, attacked.items(), strict=True):
        last = paths.first_switch
        chosen = np.flatnonzero(last > 0)
        longest = chosen[np.argsort(-last[chosen], kind="stable")]
        for place, row in enumerate(longest[:31]):
            angle, norm = np.degrees(paths.own_angle[: last[row] + 1, row]), paths.norm[: last[row] + 1, row]
            color, width, size, order = ("#762a83", 2, 6, 3) if place == 0 else ("#bbbbbb", 0.7, 3, 1)
            axes.plot(angle, norm, color=color, linewidth=width, zorder=order)
            axes.plot(angle[-1], norm[-1], marker="x", color="#d55e00", markersize=size, zorder=4)
        axes.set(title=name, xlabel="angle to the own class (degrees)", ylabel="norm")
        axes.set_ylim(bottom=0)
    return figure
