"""The loss of self-training against label smoothing, gradients by formula, and one normalizer."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F

from hardsight.domains.entropy import Entropy
from hardsight.domains.self_training import self_training_loss


def batch(b: int = 7, c: int = 5) -> tuple[torch.Tensor, torch.Tensor]:  # type: ignore[name-defined]
    generator = torch.Generator().manual_seed(0)
    return torch.randn(b, c, generator=generator), torch.randint(0, c, (b,), generator=generator)


@pytest.mark.parametrize("mrkld", [0.01, 0.1, 0.5, 1.0, 3.0])
def test_mrkld_is_one_plus_alpha_times_smoothed_cross_entropy(mrkld: float) -> None:
    logits, labels = batch()
    ours = self_training_loss(logits, F.one_hot(labels, 5).float(), torch.ones(7, dtype=torch.bool), mrkld)
    # torch smooths by epsilon spread over all classes: (1 - e) y + e / c, and mrkld / (1 + mrkld) is that e
    smoothed = F.cross_entropy(logits, labels, label_smoothing=mrkld / (1 + mrkld))
    assert ours.item() == pytest.approx((1 + mrkld) * smoothed.item(), rel=1e-5)
    one_hot = F.one_hot(labels, 5).double()
    best = ((one_hot + mrkld / 5) / (1 + mrkld)).log().float().requires_grad_()  # logits of the smoothed label: the smallest
    target = torch.ones(7, dtype=torch.bool)
    gradient = torch.autograd.grad(self_training_loss(best, one_hot.float(), target, mrkld), best)[0]
    assert gradient.abs().max() < 1e-6


def test_the_regularizer_pulls_by_p_minus_one_over_c_and_alpha_counts_once() -> None:
    logits, labels = batch(1)
    one_hot, target = F.one_hot(labels, 5).float(), torch.ones(1, dtype=torch.bool)
    logits.requires_grad_()
    with_it = torch.autograd.grad(self_training_loss(logits, one_hot, target, 0.1), logits)[0]
    without = torch.autograd.grad(self_training_loss(logits, one_hot, target, 0.0), logits)[0]
    expected = 0.1 * (torch.softmax(logits, 1) - 1 / 5)
    assert torch.allclose(with_it - without, expected, atol=1e-6)


def test_source_samples_are_not_regularized() -> None:
    logits, labels = batch()
    one_hot = F.one_hot(labels, 5).float()
    ours = self_training_loss(logits, one_hot, torch.zeros(7, dtype=torch.bool), 5.0)
    assert ours.item() == pytest.approx(F.cross_entropy(logits, labels).item(), rel=1e-6)


def test_samples_without_a_label_neither_count_nor_pull() -> None:
    logits, labels = batch()
    one_hot = F.one_hot(labels, 5).float()
    one_hot[3:] = 0
    target = torch.tensor([False, True, True, True, True, True, True])
    logits.requires_grad_()
    loss = self_training_loss(logits, one_hot, target, 0.1)
    alone = self_training_loss(logits[:3], one_hot[:3], target[:3], 0.1)
    assert loss.item() == pytest.approx(alone.item())  # one normalizer: the labeled ones, three
    gradient = torch.autograd.grad(loss, logits)[0]
    assert (gradient[3:] == 0).all() and (gradient[:3] != 0).any()
    assert self_training_loss(logits, torch.zeros(7, 5), torch.ones(7, dtype=torch.bool), 0.1).item() == 0


def test_soft_labels_and_labels_that_weigh_less_than_one() -> None:
    logits, labels = batch()
    soft = torch.softmax(torch.randn(7, 5, generator=torch.Generator().manual_seed(1)), 1)
    ours = self_training_loss(logits, soft, torch.ones(7, dtype=torch.bool))
    assert ours.item() == pytest.approx(F.cross_entropy(logits, soft).item(), rel=1e-6)
    weights = torch.linspace(0.2, 1.0, 7)
    ours = self_training_loss(logits, F.one_hot(labels, 5) * weights[:, None], torch.ones(7, dtype=torch.bool))
    expected = (weights * F.cross_entropy(logits, labels, reduction="none")).sum() / 7
    assert ours.item() == pytest.approx(expected.item(), rel=1e-6)


def test_entropy_is_the_mean_over_target_samples_labeled_or_not() -> None:
    logits, labels = batch()
    one_hot = F.one_hot(labels, 5).float()
    one_hot[4:] = 0
    target = torch.tensor([False] * 3 + [True] * 4)
    plain, with_it = self_training_loss(logits, one_hot, target), Entropy(weight=0.5).loss(logits, one_hot, target)
    expected = 0.5 * torch.distributions.Categorical(logits=logits[3:]).entropy().mean()
    assert (with_it - plain).item() == pytest.approx(expected.item(), rel=1e-5)
    none = Entropy(weight=0.5).loss(logits, one_hot, torch.zeros(7, dtype=torch.bool))
    assert none.item() == pytest.approx(self_training_loss(logits, one_hot, target).item())  # no target sample, no entropy


def test_a_step_down_the_entropy_makes_a_sure_sample_surer() -> None:
    logits = torch.tensor([[2.0, 0.0, 0.0]], requires_grad=True)
    loss = Entropy(weight=1.0).loss(logits, torch.zeros(1, 3), torch.ones(1, dtype=torch.bool))
    moved = logits - torch.autograd.grad(loss, logits)[0]
    assert torch.softmax(moved, 1)[0, 0] > torch.softmax(logits, 1)[0, 0]
