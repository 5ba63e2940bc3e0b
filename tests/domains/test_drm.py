"""DRM: how heads vote, and how they learn from an unseen domain while its samples arrive."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hardsight.domains.drm import DRMTTA, ArrivingHeads, Student, voted
from hardsight.domains.generalize import OpenedDomains
from hardsight.domains.generalize_models import GeneralizeWork, Task
from hardsight.domains.settings import GeneralizeSettings
from hardsight.extraction.inputs import domains_of
from hardsight.models.trainable import open_trainable
from hardsight.snapshot import Snapshot
from hardsight.training.trainee import LossChoice


def student(gamma: float = 1.0) -> Student:
    torch.manual_seed(0)
    network = open_trainable("feature_head", 3, options={"num_inputs": 5, "num_features": 4})
    return Student(network, torch.randn(10, 5), LossChoice("softmax", {}, 3, 10), 2, gamma).eval()


def test_votes_by_hand() -> None:
    p = torch.tensor([[[0.5, 0.5]], [[0.9, 0.1]]])
    entropy = [-2 * 0.5 * np.log(0.5), -(0.9 * np.log(0.9) + 0.1 * np.log(0.1))]
    votes = np.array([1 / entropy[0], 1 / entropy[1]])
    expected = (votes[0] * 0.5 + votes[1] * 0.9) / votes.sum()
    assert voted(p)[0, 0].item() == pytest.approx(expected)
    assert voted(p, gamma=0)[0, 0].item() == pytest.approx(0.7)
    assert voted(p, gamma=-1)[0].tolist() == pytest.approx([0.9, 0.1])
    assert voted(torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]])).tolist() == [[0.5, 0.5]]  # two heads sure of everything


def test_drm_loss_is_the_mean_of_domains_of_half_own_and_half_common() -> None:
    taught, x, y = student(), torch.randn(10, 5), torch.arange(10) % 3
    domains = torch.tensor([0] * 3 + [1] * 7)
    f = taught.features(x)
    cross_entropy = torch.nn.functional.cross_entropy
    terms = []
    for i, here in enumerate((slice(0, 3), slice(3, 10))):
        own, common = cast(Any, taught.domain_heads[i]).classes, cast(Any, taught.objective).classes
        terms.append(0.5 * (cross_entropy(own.logits(f[here]), y[here]) + cross_entropy(common.logits(f[here]), y[here])))
    loss = taught.domain_loss(x, y, torch.arange(10), domains)
    assert loss.item() == pytest.approx(torch.stack(terms).mean().item(), rel=1e-6)


def test_gamma_is_heard() -> None:
    x = torch.randn(6, 5)
    with torch.no_grad():
        own = torch.stack([torch.softmax(head.classes.logits(student().features(x)), 1) for head in student().domain_heads])  # type: ignore[union-attr, operator]
        for gamma in (-1.0, 0.0, 1.0, 50.0):
            assert torch.allclose(student(gamma).probabilities(x), voted(own, gamma), atol=1e-6)
    assert torch.allclose(student(0.0).probabilities(x), own.mean(0), atol=1e-6)
    assert torch.allclose(voted(own, 1e7), voted(own, -1.0))  # a power that no float holds: the surest head alone


def test_one_step_by_hand() -> None:
    """The heads move by the gradient of cross-entropy on the samples that the vote is sure of, and by nothing else."""
    taught, x = student(), 3 * torch.randn(8, 5)
    arriving = ArrivingHeads(taught, DRMTTA(confidence=0.4, rate=10.0), lr=0.05)
    with torch.no_grad():
        features, before = taught.features(x), taught.probabilities(x)
    sure = before.max(1).values >= 0.4
    assert 0 < sure.sum() < 8
    expected = []
    for head in taught.domain_heads:
        weight = head.classes.weight.detach().clone().requires_grad_()  # type: ignore[union-attr, operator]
        bias = head.classes.bias.detach()  # type: ignore[union-attr, operator]
        torch.nn.functional.cross_entropy((features @ weight.T + bias)[sure], before.argmax(1)[sure]).backward()
        expected.append((weight - 0.5 * weight.grad).detach())  # type: ignore[operator]
    assert torch.equal(arriving(x), before)  # predicted first
    for head, weight in zip(arriving.heads, expected, strict=True):
        assert torch.allclose(head.classes.weight, weight, atol=1e-6)  # type: ignore[union-attr, arg-type]
    assert not torch.equal(arriving(x), before)  # it has learned
    with torch.no_grad():
        assert torch.equal(taught.probabilities(x), before)  # and the student has not changed


def test_nothing_is_learned_from_what_no_head_is_sure_of() -> None:
    arriving, x = ArrivingHeads(student(), DRMTTA(confidence=1.0), lr=0.01), torch.randn(8, 5)
    assert torch.equal(arriving(x), arriving(x))


def turned(n: int = 360) -> Snapshot:
    """Three domains, each turned further than the one before: in the last one, what is sure lies between what was learned and
    what is not sure."""
    rng = np.random.default_rng(0)
    labels, domain = np.arange(n) % 3, np.arange(n) // (n // 3)
    angle = 2 * np.pi * labels / 3 + np.array([0.0, 0.1, 0.95])[domain] + 0.3 * rng.normal(size=n)
    values = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return Snapshot(values.astype(np.float32), labels=labels, columns={"domain": np.array(["a", "b", "c"])[domain]})


def history(loss: str, folder: Path, **options: Any) -> Any:
    """One training on the first two domains, tested on the third."""
    settings = GeneralizeSettings(epochs=5, hidden=32, batch_size=32, lr=0.05, device="cpu", losses=(loss,), **options)
    work = GeneralizeWork.of(settings, OpenedDomains(turned(), np.asarray(domains_of(turned())), ["a", "b", "c"]), print)
    fold = work.division.fold(work._prepared([0, 1])[0], 2, [0, 1], seed=0)
    return work._history(Task(folder / loss, loss, None, 0), fold, lambda epoch: None)


def test_the_option_reaches_the_vote(tmp_path: Path) -> None:
    work = GeneralizeWork.of(
        GeneralizeSettings(losses=("drm",), method_options={"drm": {"gamma": -2}}, hidden=4),
        OpenedDomains(turned(), np.asarray(domains_of(turned())), ["a", "b", "c"]),
        print,
    )
    fold = work.division.fold(work._prepared([0, 1])[0], 2, [0, 1], seed=0)
    assert work._student(Task(tmp_path, "drm", None, 0), fold).gamma == -2.0


def test_adapting_to_arriving_samples_helps_where_a_domain_is_turned(tmp_path: Path) -> None:
    drm = history("drm", tmp_path)
    adapted = history("drm-tta", tmp_path, method_options={"drm-tta": {"confidence": 0.7, "rate": 10.0}})
    assert adapted[-1]["test"] > drm[-1]["test"] + 0.05
    assert [entry["validation"] for entry in adapted] == [entry["validation"] for entry in drm]  # the same training
    assert not list(tmp_path.rglob("*.safetensors"))  # this one is not to be kept
