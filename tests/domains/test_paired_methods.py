"""MMD, Deep CORAL, DANN, MCD and ADR: formulas by hand, steps against plain loops written from the papers, and whole runs."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adapt_runs import QUICK, check_kept_model, contents, domains
from hardsight import adapt
from hardsight.domains.adr import ADR
from hardsight.domains.dann import DANN, reversal, reversed_gradient
from hardsight.domains.deep_coral import coral_distance
from hardsight.domains.mcd import MCD
from hardsight.domains.mmd import FACTORS, squared_mmd
from hardsight.domains.paired_steps import PairedMethod, Step
from hardsight.domains.settings import AdaptSettings
from hardsight.errors import InputError
from hardsight.models.trainable import open_trainable
from hardsight.training.optimization import Updater
from hardsight.training.settings import OptimizerOptions
from hardsight.training.trainee import LossChoice, Trainee

METHODS = ("mmd", "deep-coral", "dann", "mcd", "adr")


# ---- formulas ----


def test_squared_mmd_is_its_sums_over_pairs() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(5, 3)), rng.normal(size=(4, 3)) + 1
    every = np.concatenate([x, y])
    squares = sorted(float(((a - b) ** 2).sum()) for a in every for b in every)
    gamma = squares[(len(squares) - 1) // 2]  # torch's median is the lower one

    def k(a: np.ndarray, b: np.ndarray) -> float:
        return float(np.mean([np.exp(-((a - b) ** 2).sum() / (gamma * factor)) for factor in FACTORS]))

    pairs = [(1, x, x), (1, y, y), (-2, x, y)]
    expected = sum(sign * np.mean([k(a, b) for a in first for b in second]) for sign, first, second in pairs)
    found = squared_mmd(torch.from_numpy(x), torch.from_numpy(y))
    assert float(found) == pytest.approx(expected, rel=1e-4)
    assert float(squared_mmd(torch.from_numpy(x), torch.from_numpy(x))) == pytest.approx(0, abs=1e-6)


def test_the_distance_of_covariances_is_numpys() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(9, 3)), rng.normal(size=(7, 3)) * [1, 2, 3]
    expected = ((np.cov(x.T) - np.cov(y.T)) ** 2).sum() / (4 * 9)
    assert float(coral_distance(torch.from_numpy(x), torch.from_numpy(y))) == pytest.approx(expected, rel=1e-5)
    assert float(coral_distance(torch.ones(1, 3), torch.ones(4, 3))) == 0


def test_a_reversed_gradient_leaves_the_value() -> None:
    x = torch.tensor([[1.0, -2.0]], requires_grad=True)
    same = reversed_gradient(x, 0.25)
    same.sum().backward()
    assert torch.equal(same, x) and x.grad is not None and x.grad.tolist() == [[-0.25, -0.25]]
    assert reversal(0) == 0 and 0.99 < reversal(1) < 1


@pytest.mark.slow
def test_values_of_skada() -> None:
    pytest.importorskip("skada", reason="make nightly installs skada")
    losses = importlib.import_module("skada.deep.losses")
    modules = importlib.import_module("skada.deep.modules")

    torch.manual_seed(0)
    x, y = torch.randn(20, 4), torch.randn(30, 4) * 2 + 1
    assert float(coral_distance(x, y)) == pytest.approx(float(losses.deepcoral_loss(x, y)), rel=1e-5)
    gamma = torch.cdist(torch.cat([x, y]), torch.cat([x, y])).square().median()

    def kernel(a: Tensor, b: Tensor) -> Tensor:  # of squared distances, as in the paper; skada's own takes plain ones
        return torch.stack([torch.exp(-torch.cdist(a, b).square() / (gamma * factor)) for factor in FACTORS]).mean(0)

    assert float(squared_mmd(x, y)) == pytest.approx(float(losses._maximum_mean_discrepancy(x, y, kernel)), rel=1e-4)
    turns: list[Callable[[Tensor], Tensor]] = [
        lambda z: reversed_gradient(z, 0.7),
        lambda z: modules.GradientReversalLayer.apply(z, 0.7),
    ]
    ours, theirs = (torch.autograd.grad(turn(z := x.clone().requires_grad_()).square().sum(), z)[0] for turn in turns)
    assert torch.allclose(ours, theirs)


# ---- steps, against plain loops with an optimizer for each part ----

RATE, MOMENTUM, DECAY = 0.05, 0.9, 0.01


def batches(count: int = 6) -> list[tuple[Tensor, Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(1)
    draw = lambda: torch.randn(10, 5, generator=generator)
    return [(draw(), torch.randint(0, 3, (10,), generator=generator), draw() + 1) for _ in range(count)]


def by_hardsight(method: PairedMethod) -> Trainee:
    """A network of one hidden layer, after a step on each batch."""
    torch.manual_seed(0)
    network = open_trainable("feature_head", 3, options={"num_inputs": 5, "num_features": 4})
    learner = Trainee(network, torch.randn(4, 5), LossChoice("softmax", {}, 3, 10))
    torch.manual_seed(7)
    learner.own.update(method.parts(4, 3))
    sgd = OptimizerOptions(momentum=MOMENTUM, nesterov=False)
    settings = AdaptSettings(optimizer="sgd", lr=RATE, weight_decay=DECAY, optimizer_options=sgd)
    updater = Updater(learner, settings)
    torch.manual_seed(3)
    for number, batch in enumerate(batches()):
        method.step(Step(learner, updater, *batch, progress=number / 6))
    return learner


class Plain:
    """The same network as plain modules, each with its own SGD; biases do not decay."""

    def __init__(self, **more: nn.Module) -> None:
        torch.manual_seed(0)
        network = open_trainable("feature_head", 3, options={"num_inputs": 5, "num_features": 4})
        learner = Trainee(network, torch.randn(4, 5), LossChoice("softmax", {}, 3, 10))
        self.hidden: Any = network.module.hidden
        self.head = nn.Linear(4, 3)
        with torch.no_grad():
            self.head.weight.copy_(learner.objective.classes.weight)
            self.head.bias.copy_(learner.objective.classes.bias)  # type: ignore[arg-type]
        for name, module in {"hidden": self.hidden, "head": self.head, **more}.items():
            setattr(self, name, module)
        self.modules: dict[str, Any] = {"hidden": self.hidden, "head": self.head, **more}
        self.sgd = {}
        for name, module in self.modules.items():
            decayed = [{"params": p, "weight_decay": DECAY if p.ndim > 1 else 0.0} for p in module.parameters()]
            self.sgd[name] = torch.optim.SGD(decayed, lr=RATE, momentum=MOMENTUM)

    def features(self, x: Tensor) -> Tensor:
        return F.relu(self.hidden(x))

    def descend(self, loss: Tensor, *names: str) -> None:
        for optimizer in self.sgd.values():
            optimizer.zero_grad()
        loss.backward()
        for name in names:
            self.sgd[name].step()


def same(learner: Trainee, plain: Plain) -> None:
    """Both have come to the same weights."""
    hidden: Any = learner.network.hidden
    assert torch.allclose(hidden.weight, plain.hidden.weight, atol=1e-5)
    assert torch.allclose(learner.objective.classes.weight, plain.head.weight, atol=1e-5)


def test_steps_of_mcd_are_those_of_a_plain_loop() -> None:
    torch.manual_seed(7)
    plain = Plain(second=nn.Linear(4, 3))
    torch.manual_seed(7)
    second = nn.Linear(4, 3)
    plain.modules["second"].load_state_dict(second.state_dict())
    f1, f2 = plain.head, plain.modules["second"]

    def apart(x: Tensor) -> Tensor:
        z = plain.features(x)
        return (f1(z).softmax(1) - f2(z).softmax(1)).abs().mean()

    def learned(x: Tensor, y: Tensor) -> Tensor:
        z = plain.features(x)
        return F.cross_entropy(f1(z), y) + F.cross_entropy(f2(z), y)

    for source, labels, target in batches():
        plain.descend(learned(source, labels), "hidden", "head", "second")
        plain.descend(learned(source, labels) - apart(target), "head", "second")
        for _ in range(3):
            plain.descend(apart(target), "hidden")
    method = MCD(steps=3)
    learner = by_hardsight(method)
    same(learner, plain)
    kept, x = method.kept(learner), torch.randn(6, 5)
    expected = (plain.head(plain.features(x)) + f2(plain.features(x))) / 2  # the ensemble of the authors, halved
    assert torch.allclose(kept.logits(x), expected, atol=1e-5) and kept is not learner


@pytest.mark.parametrize("per_class", [False, True])
def test_steps_of_adr_are_those_of_a_plain_loop(per_class: bool) -> None:
    plain = Plain(kept=nn.Linear(4, 3))
    kept = plain.modules["kept"]
    kept.load_state_dict(plain.head.state_dict())

    def learned(head: nn.Module, z: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(head(F.dropout(z, 0.4)), y)

    def sensitive(z: Tensor) -> Tensor:  # equation 1
        p, q = (plain.head(F.dropout(z, 0.4)).softmax(1) for _ in range(2))
        d = 0.5 * ((p * (p / q).log()).sum(1) + (q * (q / p).log()).sum(1)).mean()
        return d / 3 if per_class else d

    torch.manual_seed(3)
    for source, labels, target in batches():
        z = plain.features(source)
        own = learned(kept, z.detach(), labels)
        plain.descend(learned(plain.head, z, labels) + own, "hidden", "head", "kept")
        loss = learned(plain.head, plain.features(source), labels)
        plain.descend(loss - sensitive(plain.features(target)), "head")
        for _ in range(2):
            plain.descend(sensitive(plain.features(target)), "hidden")
    method, x = ADR(steps=2, dropout=0.4, per_class=per_class), torch.randn(6, 5)
    learner = by_hardsight(method)
    same(learner, plain)
    assert torch.allclose(method.kept(learner).logits(x), kept(plain.features(x)), atol=1e-5)


def test_steps_of_dann_are_those_of_two_players() -> None:
    """The discriminator goes down its loss and the network up the same one, lambda times, beside its own."""
    torch.manual_seed(7)
    method = DANN(hidden=6, weight=0.5)
    critic: Any = method.parts(4, 3)["discriminator"]
    plain = Plain(critic=critic)
    torch.manual_seed(7)
    critic.load_state_dict(method.parts(4, 3)["discriminator"].state_dict())
    for number, (source, labels, target) in enumerate(batches()):
        s, t = plain.features(source), plain.features(target)
        own = F.cross_entropy(plain.head(s), labels)
        told = critic(torch.cat([s, t])).squeeze(1)
        is_target = torch.arange(20) >= 10
        domains = 2 * F.binary_cross_entropy_with_logits(told, is_target.float())  # a mean of each domain
        up = 0.5 * reversal(number / 6)
        parameters = [p for module in plain.modules.values() for p in module.parameters()]
        theirs = torch.autograd.grad(domains, parameters, retain_graph=True, allow_unused=True)
        plain.descend(own)  # gradients alone
        for p, gradient in zip(parameters, theirs, strict=True):
            if gradient is not None:
                sign = -up if any(p is q for q in plain.hidden.parameters()) else 1.0
                p.grad = sign * gradient + (0 if p.grad is None else p.grad)
        for optimizer in plain.sgd.values():
            optimizer.step()
    same(by_hardsight(method), plain)


# ---- whole runs ----


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Any:
    there, here, labels = domains()
    options: dict[str, Any] = {**QUICK, "rounds": 2, "methods": ("source", *METHODS, "dann+cbst"), "seeds": 1}
    return adapt((there, labels), (here, labels), tmp_path_factory.mktemp("paired") / "run", **options)


def test_every_method_is_a_row_from_one_source_model(compared: Any) -> None:
    rows = {row["method"]: row for row in compared.rounds.to_pylist() if row["round"] == 2}
    assert set(rows) == {*METHODS, "dann+cbst"}
    assert all(row["selected"] is None for name, row in rows.items() if name in METHODS)
    assert rows["dann+cbst"]["selected"] > 0  # self-training goes on from its model
    assert len({row["infomax"] for row in rows.values()}) == len(rows)  # no two are the same model


@pytest.mark.parametrize("method", METHODS)
def test_a_kept_model_takes_features_as_they_were(compared: Any, method: str) -> None:
    _, here, labels = domains()
    check_kept_model(compared.run / "source-to-target" / "seed=0" / method, here, labels)


@pytest.mark.parametrize("method", ["dann", "mcd"])
def test_a_killed_run_is_resumed_to_the_same_bytes(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The networks that only training needs are part of its checkpoints."""
    monkeypatch.setattr("hardsight.training.checkpoint.SECONDS_BETWEEN", 0.0)
    there, here, labels = domains(n=60)
    source, target = (there, labels), (here, labels)
    adapt(source, target, tmp_path / "whole", methods=method, **QUICK)

    def die(done: int, total: int, words: str) -> None:
        if method in words and done == 4 + 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        adapt(source, target, tmp_path / "killed", methods=method, progress=die, **QUICK)
    assert list((tmp_path / "killed").rglob("epoch=0002.safetensors"))
    adapt(source, target, tmp_path / "killed", methods=method, **QUICK)
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


def test_on_images_coral_is_deep_coral(tmp_path: Path) -> None:
    said: list[str] = []
    options: dict[str, Any] = {"rounds": 1, "epochs": 1, "source_epochs": 1, "limit": 60, "model": "DigitsCNN", "batch_size": 32}
    done = adapt("digits:train", "digits:test", tmp_path / "run", methods=("coral", *METHODS[2:]), say=said.append, **options)
    assert done.accuracy.column("method").to_pylist()[2:] == ["deep-coral", *METHODS[2:]]
    assert any("deep-coral" in sentence for sentence in said)
    with pytest.raises(InputError, match="subspace"):
        adapt("digits:train", "digits:test", tmp_path / "no", methods="subspace", **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mcd": {"steps": 0}}, ["mcd", "steps"]),
        ({"adr": {"dropout": 1.0}}, ["adr", "dropout"]),
        ({"dann": {"width": 3}}, ["dann", "width"]),
    ],
)
def test_options_of_a_method_are_refused_by_name(options: dict[str, Any], words: list[str], tmp_path: Path) -> None:
    there, here, labels = domains(n=30)
    with pytest.raises(InputError) as error:
        adapt((there, labels), (here, labels), tmp_path / "run", methods=list(options), method_options=options)
    assert all(word in str(error.value) for word in words) and not (tmp_path / "run").exists()
