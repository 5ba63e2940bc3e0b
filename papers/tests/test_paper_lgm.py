"""Recipes of the L-GM paper: those that need no training, and the pieces of the others."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("torch")

from hardsight.head import Head
from hardsight_papers import catalog
from hardsight_papers.cache import Cache
from hardsight_papers.context import Context
from hardsight_papers.data_folder import DataFolder
from hardsight_papers.lgm import digit_networks
from hardsight_papers.lgm.adversarial import ahead, error_gap
from hardsight_papers.lgm.digit_networks import about
from hardsight_papers.lgm.embeddings import draw, separation
from hardsight_papers.lgm.margin import figure_2, lemma_1, reach


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(data=DataFolder(None), cache=Cache(tmp_path))


def test_the_margin_by_hand() -> None:
    """(1 + 3) r^2 = (2 - r)^2 gives r = 2/3, a gap of 2/3 between the two classes."""
    assert reach(0.0) == pytest.approx(1.0) and reach(3.0) == pytest.approx(2 / 3)


def test_figure_2_and_lemma_1_hold(context: Context) -> None:
    for recipe in (figure_2, lemma_1):
        outcome = recipe(context)
        assert [claim.verdict for claim in outcome.claims] == ["holds"]
        assert all(table.cells() for table in outcome.tables)


def test_separation_and_the_heat_map() -> None:
    points, labels = np.array([[-1.0, 0], [1, 0], [9, 0], [11, 1]]), np.array([0, 0, 1, 1])
    assert separation(points[:, :1], labels) == pytest.approx(10.0)
    head = Head("gaussian", np.array([[0.0, 0.0], [10.0, 0.5]]))
    losses = ("softmax", "center", "l_softmax", "gm", "lgm")
    figure = draw({loss: (points, labels) for loss in losses}, {loss: head for loss in losses}, points)
    assert len(figure.axes) == 6


def test_every_table_and_figure_of_the_slides_has_a_recipe(context: Context) -> None:
    ids = {id for id in catalog.recipes() if id.startswith("lgm/")}
    printed = {"fig1", "fig2", "fig3", "fig4", "table3", "table4", "table6"}
    assert ids == {f"lgm/{name}" for name in (*printed, "calibration", "verification", "lemma1")}
    assert "digits" in about(context, 2)


def test_who_is_ahead_by_hand() -> None:
    def attack_of(*correct: bool) -> Any:
        table = pa.table({"epsilon": [0.2] * len(correct), "correct": correct})
        return SimpleNamespace(table=table)

    attacks = {"softmax": attack_of(False, False, True, True), "center": attack_of(True, True, True, False)}
    assert error_gap({**attacks, "lgm": attack_of(True, True, True, True)}, "softmax", 0.2)[0] == 50
    close = ahead({**attacks, "lgm": attack_of(True, True, True, True)}, 0.2)  # fewer errors, but of four images
    assert close.verdict == "inconclusive" and "center +25.00 [-24.00, +74.00]" in close.found
    many = {loss: attack_of(*(10 * each.table["correct"].to_pylist())) for loss, each in attacks.items()}
    assert ahead({**many, "lgm": attack_of(*[True] * 40)}, 0.2).verdict == "holds"
    behind = ahead({**many, "lgm": attack_of(*[True, True, False, False] * 10)}, 0.2)
    assert behind.verdict == "does not hold" and "center -25.00" in behind.found and "FGSM at 0.2" in behind.text


def test_the_network_of_two_features(context: Context) -> None:
    """Its features may point anywhere; and LeNet pools before its ReLU, which gives what a ReLU before the pooling gives."""
    import torch
    from torch import nn

    from hardsight.models.networks import lenet

    name, options, learning = digit_networks.network(context, 2)
    network = lenet(**options)
    kinds = [type(layer).__name__ for layer in network.trunk]
    assert name == "lenet" and learning["augment"] == "crop=1" and "shifts by up to 1 pixel, one" in about(context, 2)
    assert kinds.count("PReLU") == 3 and "ReLU" not in kinds and network.head.in_features == 2
    images, plain = torch.randn(3, 1, 28, 28), lenet()
    first, second = (layer for layer in plain.trunk if isinstance(layer, nn.Conv2d))
    pooled = images
    for convolution in (first, second):
        pooled = nn.functional.max_pool2d(torch.relu(convolution(pooled)), 2)
    linear = next(layer for layer in plain.trunk if isinstance(layer, nn.Linear))
    assert torch.allclose(plain(images), plain.head(torch.relu(linear(pooled.flatten(1)))), atol=1e-6)


@pytest.mark.parametrize(("images", "right", "verdict"), [("MNIST", 0.985, "holds"), ("MNIST", 0.98, "inconclusive"),
                                                          ("MNIST", 0.97, "does not hold"),
                                                          ("digits", 0.99, "not comparable")])  # fmt: skip
def test_the_accuracy_that_a_network_should_reach(
    images: str, right: float, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = SimpleNamespace(history=[{"test": {"accuracy": right, "n": 10000}}])
    monkeypatch.setattr(digit_networks, "trained", lambda *arguments: trained)
    context: Any = SimpleNamespace(handwriting=lambda: SimpleNamespace(name=images))
    claim = digit_networks.reaches(context, "softmax", 2, 0.98)
    assert claim.verdict == verdict and f"{100 * right:.2f} %" in claim.found


@pytest.mark.slow
@pytest.mark.parametrize(
    "id", ["lgm/table6", "lgm/fig1", "lgm/fig3", "lgm/fig4", "lgm/verification", "lgm/table3", "lgm/table4", "lgm/calibration"]
)
def test_recipes_run_on_the_built_in_digits(
    id: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hardsight_papers.lgm import (
        benchmarks,
        digit_networks,
        embeddings,  # noqa: F401
    )

    monkeypatch.setitem(digit_networks.EPOCHS, "digits", 1)
    monkeypatch.setitem(benchmarks.SMALL, "epochs", 1)
    shared = tmp_path_factory.getbasetemp() / "lgm-cache"
    outcome = catalog.recipes()[id].run(Context(data=DataFolder(None), cache=Cache(shared)))
    assert outcome.claims and outcome.tables
