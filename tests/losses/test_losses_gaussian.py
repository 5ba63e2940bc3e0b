"""L-GM, GM, center and the generative head: by a loop, against torch.distributions, and the known bugs of public ports."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F
from torch import Tensor

import hardsight
from hardsight.losses import CenterLoss, GMLoss, LGMLoss, center_loss, lgm_loss
from hardsight.losses.center import moved_centers
from hardsight.losses.gaussian_logits import gaussian_logits

SHAPES = {"identity": None, "shared": (6,), "per_class": (4, 6)}


def case(covariance: str, n: int = 9, dtype: Any = torch.float64) -> tuple[Tensor, Tensor, Any, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, 6, generator=generator, dtype=dtype)
    mean = torch.randn(4, 6, generator=generator, dtype=dtype)
    shape = SHAPES[covariance]
    v = None if shape is None else 0.5 * torch.randn(shape, generator=generator, dtype=dtype)
    return x, mean, v, torch.randint(0, 4, (n,), generator=generator)


def rows(v: Any) -> Tensor:
    """The log-variances as (4, 6)."""
    return torch.zeros(4, 6, dtype=torch.float64) if v is None else v.expand(4, 6)


@pytest.mark.parametrize("covariance", SHAPES)
def test_value_against_a_loop(covariance: str) -> None:
    x, mean, v, y = case(covariance)
    prior = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    got = lgm_loss(x, mean, v, y, alpha=0.7, likelihood=0.2, log_prior=prior.log(), reduction="none")
    for i in range(len(x)):
        z, own = [], 0.0
        for k in range(4):
            variance = rows(v)[k].exp()
            d = 0.5 * float(((x[i] - mean[k]) ** 2 / variance).sum())
            log_det = float(variance.log().sum())
            mine = k == int(y[i])
            z.append(math.log(float(prior[k])) - 0.5 * log_det - d * (1.7 if mine else 1.0))
            own += (d + 0.5 * log_det) * mine
        expected = math.log(sum(math.exp(a - z[int(y[i])]) for a in z)) + 0.2 * own
        assert float(got[i]) == pytest.approx(expected)


@pytest.mark.parametrize("covariance", SHAPES)
def test_gradients(covariance: str) -> None:
    x, mean, v, y = case(covariance)
    inputs = [t.requires_grad_() for t in (x, mean) + (() if v is None else (v,))]
    upstream = torch.linspace(0.5, 2, 9, dtype=torch.float64)

    def value(x: Tensor, mean: Tensor, v: Tensor | None = None) -> Tensor:
        return lgm_loss(x, mean, v, y, alpha=0.7, likelihood=0.3, reduction="none") @ upstream

    assert torch.autograd.gradcheck(value, inputs)
    assert torch.autograd.gradcheck(lambda *t: gaussian_logits(t[0], t[1], t[2] if v is not None else None, y, alpha=0.3), inputs)


def test_classes_in_several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    from hardsight.losses import gaussian_logits as module

    for covariance in SHAPES:
        x, mean, v, y = case(covariance)
        inputs = [t.requires_grad_() for t in (x, mean) + (() if v is None else (v,))]
        whole = torch.autograd.grad(lgm_loss(x, mean, v, y), inputs)
        monkeypatch.setattr(module, "BLOCK", 18)  # three classes, then one
        torch.testing.assert_close(torch.autograd.grad(lgm_loss(x, mean, v, y), inputs), whole)
        monkeypatch.undo()


def test_identity_covariance_is_a_linear_classifier() -> None:
    x, mean, _, y = case("identity")
    expected = F.cross_entropy(x @ mean.T - 0.5 * (mean**2).sum(1), y)
    torch.testing.assert_close(lgm_loss(x, mean, None, y, alpha=0.0, likelihood=0.0), expected)


@pytest.mark.parametrize("covariance", SHAPES)
def test_likelihood_is_that_of_a_gaussian(covariance: str) -> None:
    """With the variance in the distance and the determinant: a public port leaves out the first, others the second."""
    x, mean, v, y = case(covariance)
    loss = LGMLoss(6, 4, covariance=covariance).double()  # type: ignore[arg-type]
    with torch.no_grad():
        loss.weight.copy_(mean)
        if loss.log_variance is not None:
            loss.log_variance.copy_(v)
    normal = torch.distributions.MultivariateNormal(mean[y], torch.diag_embed(rows(v)[y].exp()))
    torch.testing.assert_close(loss.log_likelihood(x, y).detach(), normal.log_prob(x))
    predicted = loss.logits(x).argmax(1)
    torch.testing.assert_close(loss.log_likelihood(x), loss.log_likelihood(x, predicted))
    score = hardsight.scores.gm_likelihood(x, loss.head)  # the score of a snapshot with this head
    torch.testing.assert_close(torch.from_numpy(score), loss.log_likelihood(x).detach())
    only_likelihood = lgm_loss(x, mean, v, y, likelihood=1.0) - lgm_loss(x, mean, v, y, likelihood=0.0)
    torch.testing.assert_close(only_likelihood, -normal.log_prob(x).mean() - 3 * math.log(2 * math.pi))


def test_likelihood_with_identity_covariance_is_the_center_loss() -> None:
    """Lemma 1 (eq. 16): with S = I and equal priors, L_lkd = L_C + N/2 D log 2 pi, both summed over the N samples."""
    x, mean, _, y = case("identity")
    loss = LGMLoss(6, 4, prior=[0.25] * 4).double()
    with torch.no_grad():
        loss.weight.copy_(mean)
    constant = 0.5 * len(x) * 6 * math.log(2 * math.pi)
    pull = center_loss(x, mean, y, reduction="sum")
    torch.testing.assert_close(-loss.log_likelihood(x, y).detach().sum(), pull + constant)
    with_it, without = (lgm_loss(x, mean, None, y, likelihood=weight, reduction="sum") for weight in (1.0, 0.0))
    torch.testing.assert_close(with_it - without, pull)  # the loss leaves the constant out


def test_likelihood_is_of_the_own_class_only() -> None:
    """A public port averages the distances to all means; then a far-off mean of another class would count."""
    x, mean, _, y = case("identity")
    far = torch.cat([mean, torch.full((1, 6), 1e3, dtype=torch.float64)])
    torch.testing.assert_close(lgm_loss(x, mean, None, y, likelihood=0.5), lgm_loss(x, far, None, y, likelihood=0.5))


def test_shrinking_variances_do_not_pay() -> None:
    """If the distance ignores the variance, log|S| falls without bound; here the minimum is at the variance of the data."""
    x, mean, _, y = case("identity", n=4000)
    x = mean[y] + 0.5 * x
    curve = [float(lgm_loss(x, mean, torch.full((6,), v).double(), y, alpha=0.0, likelihood=1.0)) for v in np.linspace(-4, 1, 21)]
    assert np.linspace(-4, 1, 21)[int(np.argmin(curve))] == pytest.approx(math.log(0.25), abs=0.26)


def test_margin_is_on_the_own_distance_and_not_on_the_determinant() -> None:
    x, mean, v, y = case("per_class")
    logits, own = gaussian_logits(x, mean, v, y)
    logits[torch.arange(9), y] -= 0.7 * (own - 0.5 * rows(v)[y].sum(1))
    torch.testing.assert_close(lgm_loss(x, mean, v, y, alpha=0.7, likelihood=0.0), F.cross_entropy(logits, y))
    assert lgm_loss(x, mean, v, y, alpha=0.7) > lgm_loss(x, mean, v, y, alpha=0.0)  # a public port never applied it


@pytest.mark.parametrize("covariance", SHAPES)
def test_far_off_features_keep_their_digits(covariance: str) -> None:
    """Samples a thousand away, and a thousandth from their means: in expanded form, distances would be rounding noise."""
    x, mean, v, y = case(covariance)
    log_det = 0.5 * rows(v).sum(1)
    exact, _ = gaussian_logits(x, mean, v, y)
    got, _ = gaussian_logits((x + 1000).float(), (mean + 1000).float(), None if v is None else v.float(), y)
    torch.testing.assert_close(got.double() + log_det, exact + log_det, rtol=1e-3, atol=0)
    near, mean = (mean[y] * 100 + 1e-3 * x).float(), (mean * 100).float()
    _, own = gaussian_logits(near, mean, None, y)
    torch.testing.assert_close(own.double(), 0.5 * ((near - mean[y]).double() ** 2).sum(1), rtol=1e-5, atol=0)


def test_determinants_and_densities_that_underflow() -> None:
    """A public port multiplies variances up and takes e^-d: with 512 features both are 0, and their logarithm is not finite."""
    torch.manual_seed(0)
    x, mean = torch.randn(4, 512) * 10, torch.randn(3, 512)
    log_variance = torch.full((3, 512), -4.0)
    assert float(log_variance.exp().prod()) == 0.0 and float(torch.exp(-0.5 * (x**2).sum())) == 0.0
    for t in (x, mean, log_variance):
        t.requires_grad_()
    value = lgm_loss(x, mean, log_variance, torch.tensor([0, 1, 2, 0]), alpha=0.3, likelihood=0.1)
    value.backward()
    assert value.isfinite() and all(t.grad is not None and t.grad.isfinite().all() for t in (x, mean, log_variance))
    assert all(t.grad.abs().sum() > 0 for t in (x, mean, log_variance))  # type: ignore[union-attr]


def test_log_variances_are_held_and_come_back() -> None:
    x, mean, _, y = case("identity", n=200)
    low = torch.full((6,), -50.0, dtype=torch.float64, requires_grad=True)
    high = torch.full((6,), 50.0, dtype=torch.float64, requires_grad=True)
    for v, bound, sign in ((low, -4.0, -1), (high, 4.0, 1)):
        value = lgm_loss(x, mean, v, y, likelihood=1.0, alpha=0.0)
        torch.testing.assert_close(value, lgm_loss(x, mean, torch.full_like(v, bound), y, likelihood=1.0, alpha=0.0))
        (grad,) = torch.autograd.grad(value, v)
        assert (sign * grad > 0).all()  # a step against the gradient leads back
    shrinking = torch.full((6,), -50.0, dtype=torch.float64, requires_grad=True)
    (grad,) = torch.autograd.grad(lgm_loss(mean[y], mean, shrinking, y, likelihood=1.0, alpha=0.0), shrinking)
    assert (grad == 0).all()  # and no step leads further out


def test_no_array_of_samples_times_classes_times_dimensions() -> None:
    """2 * 10^10 numbers would be 80 GB."""
    loss = LGMLoss(64, 20_000, covariance="per_class")
    x = torch.randn(64, 64, requires_grad=True)
    loss(x.repeat(1, 1), torch.arange(64)).backward()
    assert x.grad is not None and x.grad.isfinite().all()


def test_warm_up() -> None:
    x, mean, _, y = case("identity")
    loss = LGMLoss(6, 4, alpha=1.0, likelihood=0.1, warmup_epochs=10).double()
    with torch.no_grad():
        loss.weight.copy_(mean)
    for epoch, alpha, likelihood in ((0, 0.1, 0.001), (5, 0.55, 0.0505), (10, 1.0, 0.1), (99, 1.0, 0.1)):
        loss.set_epoch(epoch)
        torch.testing.assert_close(loss(x, y), lgm_loss(x, mean, None, y, alpha=alpha, likelihood=likelihood))


# Center


def test_center_by_hand() -> None:
    x = torch.tensor([[1.0, 1.0], [3.0, 1.0], [0.0, 4.0]])
    y = torch.tensor([0, 0, 1])
    centers = torch.tensor([[1.0, 1.0], [0.0, 0.0], [5.0, 5.0]])
    assert center_loss(x, centers, y, reduction="none").tolist() == [0.0, 2.0, 8.0]
    moved = moved_centers(centers, x, y, rate=0.5)
    # class 0: sum of differences (-2, 0) over 1 + 2; class 1: (0, -4) over 1 + 1; class 2 has no sample
    torch.testing.assert_close(moved, torch.tensor([[1 + 1 / 3, 1.0], [0.0, 1.0], [5.0, 5.0]]))


def test_center_moves_in_training_only() -> None:
    loss = CenterLoss(6, 4, pull=0.5).double()
    x, _, _, y = case("identity")
    first = loss(x, y)
    torch.testing.assert_close(first, F.cross_entropy(loss.logits(x), y) + 0.25 * (x**2).sum(1).mean())
    held = loss.centers.clone()
    assert held.abs().sum() > 0
    loss.eval()(x, y)
    assert torch.equal(loss.centers, held)


# Generative head


# STEPUP


def test_alpha_grows_by_leaps_over_training_steps() -> None:
    loss = LGMLoss(3, 2, alpha=1.0, step_up=(0.001, 10.0, 2))
    seen = []
    for _ in range(8):
        seen.append(loss.margin)
        loss(torch.randn(4, 3), torch.tensor([0, 1, 0, 1]))
    assert seen == pytest.approx([0.001, 0.001, 0.01, 0.01, 0.1, 0.1, 1.0, 1.0])
    other = LGMLoss(3, 2, alpha=1.0, step_up=(0.001, 10.0, 2))
    other.load_state_dict(loss.state_dict())
    assert other.margin == 1.0
    loss.eval()
    before = int(loss.step)  # type: ignore[arg-type]
    loss(torch.randn(4, 3), torch.tensor([0, 1, 0, 1]))
    assert int(loss.step) == before  # type: ignore[arg-type]
    loss.step.fill_(10**9)  # type: ignore[union-attr]
    assert loss.margin == 1.0  # nothing overflows


def test_the_margin_used_is_the_one_stepped_up() -> None:
    x, y = torch.randn(6, 3, dtype=torch.float64), torch.tensor([0, 1, 0, 1, 1, 0])
    loss = LGMLoss(3, 2, alpha=0.8, step_up=(0.2, 2.0, 1)).double()
    for alpha in (0.2, 0.4, 0.8, 0.8):
        expected = lgm_loss(x, loss.weight, None, y, alpha=alpha, likelihood=0.1)
        assert loss(x, y).item() == pytest.approx(expected.item())
    gm = GMLoss(3, 2, likelihood=0.2).double()  # without a margin
    torch.testing.assert_close(gm(x, y), lgm_loss(x, gm.weight, None, y, alpha=0.0, likelihood=0.2))
