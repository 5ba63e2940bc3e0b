"""The tables of docs/results.md about subsets and curricula of CIFAR-10: python docs/make_subsets.py DATA RUNS [IMAGES]

DATA is a directory with cifar10_train.npz, cifar10_test.npz and cifar10_resnet20.safetensors. Every training is a run in RUNS;
an interrupted one is resumed, and one that is complete is not made again. IMAGES takes only so many images of each set, to see
that everything works.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

import hardsight
from hardsight import Snapshot, extract, select
from hardsight.checks import to_numpy
from hardsight.stats import mean_interval
from hardsight.subsets.strata import usual_cut

NET = "make_subsets:small_net"
SEEDS = (0, 1, 2)
MORE_SEEDS = tuple(range(8))  # for random and coverage alone
SUBSETS = ("random", "coverage", "balanced", "easiest", "d2", "kcenter", "hardest")
DRAWN = ("random", "coverage", "balanced")  # another subset for every seed
ORDERS = ("random", "easy-first", "teacher", "self-paced", "hard-first")
SETTINGS = {  # name: share of wrong labels, epochs, epochs until all samples are in
    "short": (0.0, 4, 2),
    "wrong labels": (0.4, 6, 6),
    "longer": (0.0, 10, 5),
}
LEARNING: dict[str, Any] = {"lr": 0.05, "schedule": "cosine", "watch": {}}


def small_net(num_classes: int = 10) -> nn.Module:
    """Three convolutions, 64 features and a linear head."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 5, stride=2, padding=2, bias=False), nn.BatchNorm2d(32), nn.ReLU(),  # 32 -> 16
        nn.Conv2d(32, 64, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU(),  # 16 -> 8
        nn.Conv2d(64, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, num_classes),
    )  # fmt: skip


def of_each_class(labels: np.ndarray, count: int) -> np.ndarray:
    """Rows of the first `count` images of each class."""
    return np.sort(np.concatenate([np.flatnonzero(labels == label)[:count] for label in np.unique(labels)]))


def images_of(source: Path, target: Path, per_class: int, wrong: float = 0.0) -> Path:
    """A file with so many images of each class, of whose labels a share is replaced by another class at random."""
    if not target.exists():
        with np.load(source, allow_pickle=False) as arrays:
            images, labels = arrays["images"], arrays["labels"].astype(np.int64)
        rows = of_each_class(labels, per_class)
        rng = np.random.default_rng(0)
        given = labels[rows]
        replaced = rng.permutation(len(rows))[: round(wrong * len(rows))]
        given[replaced] = (given[replaced] + rng.integers(1, 10, len(replaced))) % 10
        np.savez(target, images=images[rows], labels=given)
    return target


def tested(data: Path, run: Path, test: Path, **options: Any) -> float:
    """The test accuracy of a network that is trained with these options."""
    hardsight.train(str(data), NET, run, batch_size=64, snapshot=False, **LEARNING, **options)
    weights = run / "model" / "model.safetensors"
    seen = extract(NET, str(test), run.with_name(f"{run.name}-test"), weights=weights, batch_size=500)
    rows, head = seen.in_memory(), seen.head
    assert head is not None
    return float((to_numpy(head.logits(rows.values)).argmax(1) == rows.labels).mean())


def subsets(train: Path, test: Path, runs: Path) -> dict[str, list[float]]:
    """Accuracy of networks that are trained on a tenth, by method and seed."""
    everything = runs / "all"
    history = hardsight.train(str(train), NET, everything, epochs=6, **LEARNING).history
    print(f"all images: {100 * history[-1]['train']['accuracy']:.1f} % of them right in the last epoch", flush=True)
    budget = len(Snapshot.load(everything)) // 10
    found: dict[str, list[float]] = {}
    method: Any
    for method in SUBSETS:
        seeds = SEEDS if method in DRAWN else SEEDS[:1]
        chosen = {seed: select(everything, budget=budget, method=method, seed=seed) for seed in seeds}
        found[method] = [
            tested(train, runs / f"{method}-{seed}", test, subset=chosen.get(seed, chosen[SEEDS[0]]).arrow, epochs=8, seed=seed)
            for seed in SEEDS
        ]
        print(f"{method}: {found[method]}", flush=True)
    return found


def parts_of_coverage(train: Path, test: Path, runs: Path) -> dict[str, list[float]]:
    """Accuracy of random subsets and of coverage by more seeds; of its strata alone and of its cut alone by the usual ones."""
    everything = runs / "all"
    n = len(Snapshot.load(everything))
    budget = n // 10
    left = np.array(select(everything, budget=n - int(usual_cut(0.1) * n), method="easiest")["id"].to_pylist())
    chosen: dict[str, Callable[[int], Any]] = {
        "random": lambda seed: select(everything, budget=budget, method="random", seed=seed).arrow,
        "coverage": lambda seed: select(everything, budget=budget, method="coverage", seed=seed).arrow,
        "strata": lambda seed: select(everything, budget=budget, method="coverage", cut=0.0, seed=seed).arrow,
        "cut": lambda seed: np.random.default_rng([seed, 0]).permutation(left)[:budget].tolist(),
    }
    found: dict[str, list[float]] = {}
    for name, subset in chosen.items():
        seeds = MORE_SEEDS if name in ("random", "coverage") else SEEDS
        found[name] = [tested(train, runs / f"{name}-{s}", test, subset=subset(s), epochs=8, seed=s) for s in seeds]
        print(f"{name}: {found[name]}", flush=True)
    return found


def curricula(train: Path, test: Path, runs: Path, teacher: Path, per_class: int) -> Iterator[tuple[str, dict[str, list[float]]]]:
    """Accuracy by setting, order and seed; every order of a setting makes as many steps on as many samples."""
    clean = images_of(train, runs / "images.npz", per_class)
    seen = extract("hardsight.models.cifar_resnet:cifar_resnet20", str(clean), runs / "teacher", weights=teacher).in_memory()
    head = Snapshot.load(runs / "teacher").head
    for name, (wrong, epochs, pace_epochs) in SETTINGS.items():
        data = images_of(train, runs / f"images-{wrong}.npz", per_class, wrong)
        with np.load(data, allow_pickle=False) as arrays:
            given = arrays["labels"]
        earlier = runs / f"earlier-{wrong}"  # the same network on the same labels, without an order
        hardsight.train(str(data), NET, earlier, epochs=6, batch_size=64, seed=100, **LEARNING)
        by: dict[str, dict[str, Any]] = {
            "random": {"order": "random"},
            "self-paced": {"order": "self-paced"},
            "teacher": {"curriculum": (Snapshot(seen.values, head, given), "avh")},
            "easy-first": {"curriculum": f"{earlier}:aum"},
            "hard-first": {"curriculum": f"{earlier}:aum", "order": "hard-first"},
        }
        found: dict[str, list[float]] = {}
        for order in ORDERS:
            how = {**by[order], "epochs": epochs, "pace_epochs": pace_epochs}
            word = f"{name}-{order}".replace(" ", "-")
            found[order] = [tested(data, runs / f"{word}-{seed}", test, seed=seed, **how) for seed in SEEDS]
            print(f"{name}, {order}: {found[order]}", flush=True)
        yield name, found


def against(found: list[float], control: list[float]) -> str:
    """The paired difference in points, by the seeds that both have, with its 95 % interval, bold where it leaves out 0."""
    difference = mean_interval(100 * (np.array(found) - np.array(control[: len(found)])))
    text = f"{difference.value:+.1f} [{difference.low:.1f}, {difference.high:.1f}]"
    return f"**{text}**" if difference.low > 0 or difference.high < 0 else text


def print_subsets(found: dict[str, list[float]]) -> None:
    """A table of subsets, the best first."""
    print("\n| subset | seeds | accuracy % | - random |\n| --- | --- | --- | --- |")
    for name in sorted(found, key=lambda name: -np.mean(found[name])):
        difference = "" if name == "random" else against(found[name], found["random"])
        print(f"| `{name}` | {len(found[name])} | {100 * np.mean(found[name]):.1f} | {difference} |")


def main(folder: Path, runs: Path, images: int | None = None) -> None:
    """All tables, after the accuracies that they are made of."""
    runs.mkdir(parents=True, exist_ok=True)
    train, test = folder / "cifar10_train.npz", folder / "cifar10_test.npz"
    if images is not None:
        train, test = (images_of(source, runs / source.name, images // 10) for source in (train, test))
    print_subsets(subsets(train, test, runs))
    lines = [
        f"| setting | random | {' | '.join(f'{order} - random' for order in ORDERS[1:])} |",
        "| --- " * (len(ORDERS) + 1) + "|",
    ]
    of_class = 500 if images is None else images // 20
    for name, by in curricula(train, test, runs, folder / "cifar10_resnet20.safetensors", of_class):
        differences = [against(by[order], by["random"]) for order in ORDERS[1:]]
        lines.append(f"| {name} | {100 * np.mean(by['random']):.1f} | {' | '.join(differences)} |")
    print("", *lines, sep="\n")
    print_subsets(parts_of_coverage(train, test, runs))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else None)
