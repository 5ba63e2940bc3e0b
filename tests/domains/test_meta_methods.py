"""MLDG, MetaReg and Feature-Critic on four domains of digits: steps against plain loops from the papers, and whole runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from torch import Tensor  # noqa: E402

from adapt_runs import contents  # noqa: E402
from hardsight import Snapshot, generalize  # noqa: E402
from hardsight.data import open_data  # noqa: E402
from hardsight.domains.drm import Student  # noqa: E402
from hardsight.domains.feature_critic import FeatureCritic  # noqa: E402
from hardsight.domains.meta_steps import MetaMethod, MetaStep  # noqa: E402
from hardsight.domains.metareg import MetaReg  # noqa: E402
from hardsight.domains.mldg import MLDG  # noqa: E402
from hardsight.domains.settings import GeneralizeSettings  # noqa: E402
from hardsight.errors import InputError  # noqa: E402
from hardsight.models.trainable import open_trainable  # noqa: E402
from hardsight.training.optimization import Updater  # noqa: E402
from hardsight.training.settings import OptimizerOptions  # noqa: E402
from hardsight.training.trainee import LossChoice  # noqa: E402

RATE, STEPS = 0.1, 4
NAMES = ("plain", "turned", "dark", "noisy")
QUICK: dict[str, Any] = {"epochs": 4, "hidden": 12, "batch_size": 32, "lr": 0.05}


def digits(each: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(n, 64) pixels in four domains, (n,) labels, (n,) domains."""
    images, labels = load_digits(return_X_y=True)
    pixels, known = images[: 4 * each] / 16, labels[: 4 * each]
    domain, rng = np.arange(4 * each) % 4, np.random.default_rng(0)
    turned = pixels.reshape(-1, 8, 8).transpose(0, 2, 1).reshape(-1, 64)
    versions = np.stack([pixels, turned, 0.3 * pixels, pixels + 0.3 * rng.normal(size=pixels.shape)])
    return versions[domain, np.arange(4 * each)].astype(np.float32), known, domain


def batch(number: int) -> Any:
    """Inputs, labels and domains of three training domains."""
    pixels, labels, domain = digits()
    rows = np.random.default_rng(number).permutation(np.flatnonzero(domain < 3))[:30]
    return tuple(torch.from_numpy(values[rows]) for values in (pixels, labels, domain))


def by_hardsight(method: MetaMethod) -> Student:
    """A student of one hidden layer after some steps; rows of the plain loops are drawn by the same generator."""
    torch.manual_seed(0)
    network = open_trainable("feature_head", 10, options={"num_inputs": 64, "num_features": 6})
    loss = LossChoice("softmax", {}, 10, 30)
    student = Student(network, torch.randn(4, 64), loss)
    torch.manual_seed(1)
    student.own.update(method.parts(lambda: loss.objective(6), 6, 3))
    options = OptimizerOptions(momentum=0.0, nesterov=False)
    updater = Updater(student, GeneralizeSettings(lr=RATE, weight_decay=0.0, optimizer_options=options))
    rng = np.random.default_rng(5)
    for number in range(STEPS):
        inputs, labels, domains = batch(number)
        method.step(MetaStep(student, updater, inputs, labels, torch.arange(30), domains, RATE, number / STEPS, rng))
    return student


def start(method: MetaMethod) -> tuple[list[Tensor], Student]:
    """The weights before any step: W and b of the hidden layer, V and a of the head; and a student with the method's parts."""
    torch.manual_seed(0)
    network = open_trainable("feature_head", 10, options={"num_inputs": 64, "num_features": 6})
    loss = LossChoice("softmax", {}, 10, 30)
    student = Student(network, torch.randn(4, 64), loss)
    torch.manual_seed(1)
    student.own.update(method.parts(lambda: loss.objective(6), 6, 3))
    return [p.detach().clone().requires_grad_() for p in weights(student)], student


def weights(student: Student) -> list[Tensor]:
    hidden, classes = student.network.hidden, student.objective.classes
    return [hidden.weight, hidden.bias, classes.weight, classes.bias]  # type: ignore[union-attr, list-item]


def loss_of(parameters: list[Tensor], x: Tensor, y: Tensor) -> Any:
    W, b, V, a = parameters
    return F.cross_entropy(F.relu(x @ W.T + b) @ V.T + a, y)


def down(parameters: list[Tensor], gradients: Any, rate: float = RATE) -> list[Tensor]:
    return [(p - rate * g).detach().requires_grad_() for p, g in zip(parameters, gradients, strict=True)]


def close(first: list[Tensor], second: list[Tensor]) -> None:
    for ours, theirs in zip(first, second, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5), (ours - theirs).abs().max()


def test_steps_of_mldg_are_those_of_a_plain_loop() -> None:
    method = MLDG(weight=0.7, inner_rate=3.0)
    w, _ = start(method)
    rng = np.random.default_rng(5)
    for number in range(STEPS):
        x, y, domains = batch(number)
        test, *train = rng.permutation([0, 1, 2])
        of = [loss_of(w, x[domains == i], y[domains == i]) for i in train]
        inner = sum(of) / len(of)
        gradients = torch.autograd.grad(inner, w, create_graph=True)
        moved = [p - 3.0 * RATE * g for p, g in zip(w, gradients, strict=True)]
        total = inner + 0.7 * loss_of(moved, x[domains == test], y[domains == test])
        w = down(w, torch.autograd.grad(total, w))
    close(weights(by_hardsight(method)), w)


def test_steps_of_metareg_are_those_of_a_plain_loop() -> None:
    method = MetaReg(steps=2)
    w, student = start(method)
    own: Any = student.own["heads"]
    heads = [[p.detach().clone().requires_grad_() for p in head.parameters()] for head in own]
    heads = [sorted(head, key=lambda p: -p.ndim) for head in heads]  # V, then a
    phi, rng = torch.zeros(60, requires_grad=True), np.random.default_rng(5)
    body = w[:2]
    for number in range(STEPS // 2):  # the first half
        x, y, domains = batch(number)
        order = rng.permutation([0, 1, 2])
        for i in order:
            here = domains == i
            moved = down(
                [*body, *heads[i]], torch.autograd.grad(loss_of([*body, *heads[i]], x[here], y[here]), [*body, *heads[i]])
            )
            body, heads[i] = moved[:2], moved[2:]
        a, b = order[:2]
        fixed, beta = [p.detach() for p in body], [p.detach().requires_grad_() for p in heads[a]]
        for _ in range(2):
            own = loss_of([*fixed, *beta], x[domains == a], y[domains == a]) + (phi * beta[0].abs().reshape(-1)).sum()
            beta = [p - RATE * g for p, g in zip(beta, torch.autograd.grad(own, beta, create_graph=True), strict=True)]
        (phi,) = down([phi], torch.autograd.grad(loss_of([*fixed, *beta], x[domains == b], y[domains == b]), [phi]))
    assert phi.abs().max() > 0
    w = [*body, *w[2:]]
    for number in range(STEPS // 2, STEPS):
        x, y, _ = batch(number)
        total = loss_of(w, x, y) + (phi.detach() * w[2].abs().reshape(-1)).sum()
        w = down(w, torch.autograd.grad(total, w))
    close(weights(by_hardsight(method)), w)


def test_steps_of_feature_critic_are_those_of_a_plain_loop() -> None:
    method = FeatureCritic(weight=0.5, critic_rate=2.0, hidden=7)
    w, student = start(method)
    critic = [p.detach().clone().requires_grad_() for p in student.own["critic"].parameters()]
    rng = np.random.default_rng(5)

    def advice(body: list[Tensor], c: list[Tensor], x: Tensor) -> Tensor:
        z = F.relu(x @ body[0].T + body[1])
        return F.softplus(F.relu(z @ c[0].T + c[1]) @ c[2].T + c[3]).mean()

    for number in range(STEPS):
        x, y, domains = batch(number)
        held, *train = rng.permutation([0, 1, 2])
        main = sum(loss_of(w, x[domains == i], y[domains == i]) for i in train)
        extra = 0.5 * sum(advice(w[:2], critic, x[domains == i]) for i in train)
        g_main = torch.autograd.grad(main, w[:2], retain_graph=True)
        g_extra = torch.autograd.grad(extra, w[:2], create_graph=True)
        old = [(p - RATE * g).detach() for p, g in zip(w, g_main, strict=False)]
        new = [p - RATE * g for p, g in zip(old, g_extra, strict=True)]
        fixed = [p.detach() for p in w[2:]]
        reward = loss_of([*old, *fixed], x[domains == held], y[domains == held]) - loss_of(
            [*new, *fixed], x[domains == held], y[domains == held]
        )
        g_critic = torch.autograd.grad(-torch.tanh(reward), critic, retain_graph=True)
        g_all = torch.autograd.grad(main + extra, w)
        w, critic = down(w, g_all), down(critic, g_critic, 2.0 * RATE)
    trained = by_hardsight(method)
    close(weights(trained), w)
    close(list(trained.own["critic"].parameters()), critic)


# ---- whole runs ----


def data() -> Snapshot:
    pixels, labels, domain = digits(100)
    return Snapshot(pixels, labels=labels, columns={"domain": np.array(NAMES)[domain]})


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Any:
    losses = "softmax,mldg,metareg,feature-critic,mldg+avh"
    return generalize(data(), tmp_path_factory.mktemp("meta") / "run", losses=losses, **{**QUICK, "epochs": 8})


def test_every_method_learns_and_is_a_row(compared: Any) -> None:
    rows = {row["loss"]: row["average"] for row in compared.accuracy.to_pylist()}
    assert list(rows) == ["softmax", "mldg", "metareg", "feature-critic", "mldg+avh"]
    assert min(rows.values()) > 0.3 and len(set(rows.values())) == len(rows)  # chance is 0.1
    epochs = [row for row in compared.epochs.to_pylist() if row["loss"] == "metareg" and row["domain"] == "plain"]
    assert max(row["validation"] for row in epochs[:4]) < max(row["validation"] for row in epochs[4:])  # the second half counts


@pytest.mark.parametrize("loss", ["metareg", "feature-critic"])
def test_a_killed_training_is_resumed_to_the_same_bytes(loss: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hardsight.training.checkpoint.SECONDS_BETWEEN", 0.0)
    generalize(data(), tmp_path / "whole", losses=loss, **QUICK)

    def die(done: int, total: int, words: str) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generalize(data(), tmp_path / "killed", losses=loss, progress=die, **QUICK)
    generalize(data(), tmp_path / "killed", losses=loss, **QUICK)
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


@pytest.mark.parametrize(
    ("losses", "options", "words"),
    [
        ("mldg", {"mldg": {"inner_rate": 0}}, ["mldg", "inner_rate"]),
        ("metareg", {"metareg": {"step": 3}}, ["metareg", "step"]),
        ("softmax", {"mldg": {"weight": 1}}, ["mldg", "not among the methods used"]),
    ],
)
def test_options_of_a_method_are_refused_by_name(losses: str, options: Any, words: list[str], tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        generalize(data(), tmp_path / "run", losses=losses, method_options=options)
    assert all(word in str(error.value) for word in words) and not (tmp_path / "run").exists()


def test_images_go_through_batch_normalization(tmp_path: Path) -> None:
    """The inner step replaces the parameters of a network with buffers."""
    pictures = open_data("digits", limit=72)
    images = replace(pictures, columns={"domain": [NAMES[row % 3] for row in range(72)]})
    net = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(192, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 10)
    )
    losses = "mldg,metareg,feature-critic"
    done = generalize(images, tmp_path / "run", model=net, losses=losses, epochs=2, batch_size=24, lr=0.05, keep_models=False)
    assert len(done.epochs) == 3 * 3 * 2 and all(np.isfinite(row["validation"]) for row in done.epochs.to_pylist())
