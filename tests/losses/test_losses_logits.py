"""Logit losses: their laws, a loop, torch's built-ins, and the known bugs of public ports."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F
from batches import batch
from torch import nn

from hardsight.losses import (
    ALDRLoss,
    CompSumLoss,
    DualHeadLoss,
    EnsLoss,
    SmoothAdversarialCompSumLoss,
    TruncatedGCELoss,
    binary_kl_loss,
    comp_sum_loss,
    ens_loss,
    ldr_loss,
    smooth_adversarial_comp_sum_loss,
    truncated_gce_loss,
    znorm_loss,
)
from hardsight.losses.ens import random_slopes


@pytest.mark.parametrize("tau", [0.0, 0.5, 1.0, 1.3, 1.7, 2.0, 3.0])
def test_comp_sum_against_a_loop(tau: float) -> None:
    z, y = batch(10, 4, 4)
    for zi, yi, got in zip(z.tolist(), y.tolist(), comp_sum_loss(z, y, tau=tau, reduction="none").tolist(), strict=True):
        u = sum(math.exp(zk - zi[yi]) for k, zk in enumerate(zi) if k != yi)
        assert got == pytest.approx(math.log1p(u) if tau == 1 else ((1 + u) ** (1 - tau) - 1) / (1 - tau))


def test_comp_sum_members() -> None:
    z, y = batch(10, 4, 4)
    p = z.softmax(1).gather(1, y[:, None])[:, 0]
    torch.testing.assert_close(comp_sum_loss(z, y, tau=1), F.cross_entropy(z, y))
    torch.testing.assert_close(comp_sum_loss(z, y, tau=0), (1 / p - 1).mean())
    torch.testing.assert_close(comp_sum_loss(z, y, tau=1.7), ((1 - p**0.7) / 0.7).mean())
    torch.testing.assert_close(comp_sum_loss(z, y, tau=2), (1 - p).mean())
    for near in (1 - 1e-7, 1 + 1e-7):  # the limit is continuous
        torch.testing.assert_close(comp_sum_loss(z, y, tau=near), F.cross_entropy(z, y), rtol=1e-5, atol=0)


def test_mae_is_not_a_signed_sum() -> None:
    """A public port sums y - p over the classes, which is 0 for every sample: nothing is learned."""
    z, y = batch(10, 4, 4)
    z.requires_grad_()
    value = comp_sum_loss(z, y, tau=2)
    one_hot = F.one_hot(y, 4)
    torch.testing.assert_close(value, (one_hot - z.softmax(1)).abs().sum(1).mean() / 2)
    (grad,) = torch.autograd.grad(value, z)
    assert value > 0 and (grad.abs().sum(1) > 0).all()


def test_znorm_against_a_loop_and_its_invariance() -> None:
    z, y = batch(10, 4, 4)
    for zi, yi, got in zip(
        z.tolist(), y.tolist(), znorm_loss(z, y, sharpness=2.0, target=1.0, reduction="none").tolist(), strict=True
    ):
        mean = sum(zi) / 4
        std = math.sqrt(sum((v - mean) ** 2 for v in zi) / 4)
        assert got == pytest.approx(math.log1p(math.exp(2 * (1 - (zi[yi] - mean) / std))) / 2)
    torch.testing.assert_close(znorm_loss(3 * z + 7, y), znorm_loss(z, y))
    assert not torch.isclose(znorm_loss(-z, y), znorm_loss(z, y))


def test_ldr_members() -> None:
    z, y = batch(10, 4, 4)
    plain: Any = {"margin": 0.0, "normalize": "none", "reduction": "none"}
    torch.testing.assert_close(ldr_loss(z, y, temperature=1.0, **plain), F.cross_entropy(z, y, reduction="none") - math.log(4))
    own = z.gather(1, y[:, None])
    crammer_singer = (z - own + 2.0 * (1 - F.one_hot(y, 4))).amax(1)
    near = ldr_loss(z, y, temperature=1e-4, margin=2.0, normalize="none", reduction="none")
    torch.testing.assert_close(near, crammer_singer, atol=1e-3, rtol=0)


@pytest.mark.parametrize("normalize", ["none", "softplus", "l1"])
def test_ldr_against_a_loop(normalize: Any) -> None:
    z, y = batch(10, 4, 4)
    got = ldr_loss(z, y, temperature=0.7, margin=1.5, normalize=normalize, reduction="none")
    for zi, yi, value in zip(z.tolist(), y.tolist(), got.tolist(), strict=True):
        f = [math.log1p(math.exp(v)) for v in zi] if normalize == "softplus" else zi
        size = 1.0 if normalize == "none" else sum(abs(v) for v in f) / 4
        f = [v / size for v in f]
        total = sum(math.exp((v - f[yi] + 1.5 * (k != yi)) / 0.7) for k, v in enumerate(f))
        assert value == pytest.approx(0.7 * math.log(total / 4))


def test_aldr_keeps_a_lambda_per_sample() -> None:
    z, y = batch(10, 4, 4)
    z[:5] *= 10  # clearly separated
    loss = ALDRLoss(20, normalize="none", margin=0.0).double()
    indices = torch.arange(10) * 2
    for _ in range(30):
        loss(z, y, indices)
    temperatures = loss.temperatures
    assert (temperatures[1::2] == 1).all() and (temperatures[::2] < 1).all() and (temperatures > 0).all()
    assert temperatures[::2][:5].max() < temperatures[::2][5:].min()
    lam = temperatures[::2]  # settled: where its own equation holds
    p = ((z - z.gather(1, y[:, None])) / lam[:, None]).softmax(1)
    kl = (p * p.log()).sum(1) + math.log(4)
    torch.testing.assert_close(lam, 1 - kl / (2 * math.log(4)), atol=1e-4, rtol=0)
    held = temperatures.clone()
    expected = ldr_loss(z, y, temperature=lam, margin=0.0, normalize="none") - (math.log(4) * (lam - 1) ** 2).mean()
    torch.testing.assert_close(loss.eval()(z, y, indices), expected)
    assert torch.equal(loss.temperatures, held)  # evaluating changes nothing
    assert torch.autograd.gradcheck(lambda z: loss(z, y, indices), (z.clone().requires_grad_(),))


def test_ens_slopes_are_those_of_a_convex_calibrated_loss() -> None:
    margin = torch.linspace(-3, 4, 50)[torch.randperm(50, generator=torch.Generator().manual_seed(1))]
    slopes = random_slopes(margin, 0.0, torch.Generator().manual_seed(0))
    assert (slopes < 0).all() and (slopes >= -1 - 1e-5).all()
    assert (slopes[margin.argsort()].diff() >= 0).all()


def test_ens_gradient_and_value() -> None:
    z, y = batch(10, 2, 2)
    z.requires_grad_()
    margin = (z[:, 1] - z[:, 0]) * (2 * y - 1)
    slopes = random_slopes(margin.detach(), 0.0, torch.Generator().manual_seed(0))
    value = ens_loss(z, y, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(value, (slopes * margin).mean())
    (grad,) = torch.autograd.grad(value, z)
    torch.testing.assert_close(grad[:, 1], slopes * (2 * y - 1) / 10)
    torch.testing.assert_close(grad[:, 0], -grad[:, 1])
    twice = [EnsLoss(generator=torch.Generator().manual_seed(3))(z, y) for _ in range(2)]
    assert torch.equal(*twice)


@pytest.mark.parametrize("power", [-1.0, -0.4, 0.0, 0.5, 1.0])
def test_ens_slopes_go_through_the_inverse_box_cox_transform(power: float) -> None:
    """A plain loop over sorted numbers; by hand, lambda 1 is 1 + z and lambda -1 is 1 / (1 - z)."""
    margin = torch.tensor([0.5, 2.0, -1.0, 4.0, 0.0], dtype=torch.float64)
    slopes = random_slopes(margin, power, torch.Generator().manual_seed(0))
    assert (slopes[margin.argsort()].diff() >= 0).all() and (slopes < 0).all()  # convex and calibrated whatever lambda is
    drawn = []
    for z in torch.randn(5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).tolist():
        inside = 1 + power * z
        size = math.exp(z) if power == 0 else inside ** (1 / power) if inside > 0 else (0.0 if power > 0 else math.inf)
        drawn.append(max(-size, -1.0))
    for slope, at in zip(sorted(drawn), margin.argsort().tolist(), strict=True):
        expected = slope / float(margin[at]) if margin[at] > 1 else slope
        assert float(slopes[at]) == pytest.approx(expected - 1e-6)


def test_ens_draws_lambda_once_a_period() -> None:
    loss = EnsLoss(period=3, generator=torch.Generator().manual_seed(0))
    seen = []
    for epoch in range(9):
        loss.set_epoch(epoch)
        seen.append(float(loss.power))
    assert seen[:3] == [0.0] * 3 and len(set(seen)) == 3 and seen[3:6] == [seen[3]] * 3 and -1 <= min(seen) <= max(seen) <= 1
    resumed = EnsLoss(period=3)
    resumed.load_state_dict(loss.state_dict())
    resumed.set_epoch(8)  # in the middle of a period
    assert float(resumed.power) == seen[-1] and not loss.extra_state()


def test_smooth_adversarial_finds_the_largest_move() -> None:
    """For a linear model the margins move by weight differences times the step: the largest is at a corner of the ball."""
    weight = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], dtype=torch.float64)
    x, y = torch.full((1, 2), 0.5, dtype=torch.float64), torch.tensor([0])
    options: Any = {"radius": 0.1, "step": 0.05, "steps": 5, "nu": 3.0}
    value = smooth_adversarial_comp_sum_loss(lambda x: x @ weight.T, x, y, **options)
    torch.testing.assert_close(value, F.cross_entropy(x @ weight.T, y) + 3.0 * 0.2)  # the margin moves by 2 * 0.1


def test_smooth_adversarial_trains_the_model_and_leaves_no_trace() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 4))
    x, y = torch.rand(6, 3), torch.randint(0, 4, (6,))
    value = SmoothAdversarialCompSumLoss(radius=0.05, step=0.02, steps=3)(model, x, y)
    assert value > comp_sum_loss(model(x), y) and all(p.grad is None for p in model.parameters())
    value.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    still = smooth_adversarial_comp_sum_loss(model, x, y, steps=0, nu=0.0, low=None, high=None)
    torch.testing.assert_close(still, F.cross_entropy(model(x), y))


def test_binary_kl_against_a_loop() -> None:
    (s, _), t = batch(10, 4, 4), torch.linspace(-3, 3, 40, dtype=torch.float64).reshape(10, 4)
    sigmoid = lambda v: 1 / (1 + math.exp(-v / 2))
    for si, ti, got in zip(s.tolist(), t.tolist(), binary_kl_loss(s, t, reduction="none").tolist(), strict=True):
        pairs = [(sigmoid(a), sigmoid(b)) for a, b in zip(ti, si, strict=True)]
        assert got == pytest.approx(4 * sum(p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q)) for p, q in pairs))
    assert float(binary_kl_loss(t, t)) == pytest.approx(0, abs=1e-12)
    assert torch.autograd.gradcheck(lambda s: binary_kl_loss(s, t), (s.requires_grad_(),))
    extreme = torch.tensor([[1e4, -1e4]], requires_grad=True)
    binary_kl_loss(extreme, -extreme.detach()).backward()
    assert extreme.grad is not None and extreme.grad.isfinite().all()


@pytest.mark.parametrize("hidden", [0, 16])
def test_dual_head(hidden: int) -> None:
    torch.manual_seed(0)
    loss = DualHeadLoss(6, 4, distill=0.5, hidden=hidden)
    x, y, teacher = torch.randn(8, 6, requires_grad=True), torch.randint(0, 4, (8,)), torch.randn(8, 4, requires_grad=True)
    torch.testing.assert_close(loss(x, y), F.cross_entropy(loss.logits(x), y))
    value = loss(x, y, teacher)
    assert loss.second is not None
    torch.testing.assert_close(value, loss(x, y) + 0.5 * binary_kl_loss(loss.second(x), teacher))
    value.backward()
    assert teacher.grad is None and x.grad is not None
    (only_labels,) = torch.autograd.grad(F.cross_entropy(loss.logits(x), y), loss.weight)
    torch.testing.assert_close(loss.weight.grad, only_labels)  # the teacher does not reach the first head


def test_without_a_second_head_both_losses_meet_in_the_first() -> None:
    torch.manual_seed(0)
    loss = DualHeadLoss(6, 4, distill=0.5, hidden=None)
    x, y, teacher = torch.randn(8, 6), torch.randint(0, 4, (8,)), torch.randn(8, 4)
    logits = loss.logits(x)
    torch.testing.assert_close(loss(x, y, teacher), F.cross_entropy(logits, y) + 0.5 * binary_kl_loss(logits, teacher))
    assert set(dict(loss.named_parameters())) == {"weight", "bias"}


# Truncated GCE


def test_truncated_gce_by_hand() -> None:
    logits = torch.tensor([[0.9, 0.1], [0.3, 0.7], [0.5, 0.5]], dtype=torch.float64).log()  # p of both classes
    losses = truncated_gce_loss(logits, torch.tensor([0, 0, 0]), q=0.5, k=0.5, reduction="none")
    expected = [(1 - 0.9**0.5) / 0.5, (1 - 0.5**0.5) / 0.5, (1 - 0.5**0.5) / 0.5]  # 0.3 is below k and counts as k
    assert losses.tolist() == pytest.approx(expected)


def test_a_truncated_sample_has_no_gradient_and_the_others_that_of_gce() -> None:
    torch.manual_seed(0)
    logits = (2 * torch.randn(40, 4, dtype=torch.float64)).requires_grad_()
    labels = torch.arange(40) % 4
    TruncatedGCELoss(q=0.7, k=0.4, reduction="sum")(logits, labels).backward()
    (plain,) = torch.autograd.grad(CompSumLoss(tau=1.7, reduction="sum")(logits, labels), logits)
    likely = logits.detach().softmax(1)[torch.arange(40), labels] > 0.4
    assert 5 < likely.sum() < 35
    assert torch.equal(logits.grad[likely], plain[likely]) and not logits.grad[~likely].any()


def test_truncated_gce_warms_up_without_truncation() -> None:
    loss = TruncatedGCELoss(k=0.5, warmup_epochs=2)
    logits, labels = torch.zeros(1, 10), torch.tensor([0])  # p = 0.1
    assert float(loss(logits, labels)) == pytest.approx((1 - 0.1**0.7) / 0.7)
    loss.set_epoch(2)
    assert float(loss(logits, labels)) == pytest.approx((1 - 0.5**0.7) / 0.7)
