"""The Z-loss with a linear layer of its own: the same numbers as torch's layer under SGD, at a cost without the classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from hardsight.losses import znorm_loss  # noqa: E402
from hardsight_papers import znorm_linear  # noqa: E402
from hardsight_papers.losses.naive_bayes import naive_bayes_head  # noqa: E402
from hardsight_papers.znorm_linear import ZNormLinearLoss  # noqa: E402


@pytest.mark.parametrize("limit", [100.0, 0.0])  # the factors as they are; W written out at every step
@pytest.mark.parametrize("bias", [True, False])
def test_it_is_a_linear_layer_under_sgd(bias: bool, limit: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loss, feature gradient and class vectors after 12 large steps; some classes occur twice in a batch, others never."""
    monkeypatch.setattr(znorm_linear, "LIMIT", limit)
    torch.manual_seed(0)
    linear = torch.nn.Linear(6, 30, bias=bias).double()
    loss = ZNormLinearLoss(linear, target=2.0, sharpness=1.5)
    optimizer = torch.optim.SGD(linear.parameters(), lr=5.0)
    for _ in range(12):
        x, y = torch.randn(12, 6, dtype=torch.float64, requires_grad=True), torch.randint(0, 20, (12,))
        ours = loss(x, y)
        (mine,) = torch.autograd.grad(ours, x)
        optimizer.zero_grad()
        theirs = znorm_loss(linear(x), y, target=2.0, sharpness=1.5)
        theirs.backward()
        torch.testing.assert_close(ours, theirs)
        torch.testing.assert_close(mine, x.grad, rtol=1e-9, atol=1e-12)
        optimizer.step()
        loss.step(5.0)
        torch.testing.assert_close(loss.factored.matrix()[:, :6], linear.weight.detach(), rtol=1e-9, atol=1e-10)
    if bias:
        torch.testing.assert_close(loss.factored.matrix()[:, 6], linear.bias.detach(), rtol=1e-9, atol=1e-10)


def test_features_without_spread_have_the_gradient_of_the_plain_loss() -> None:
    linear = torch.nn.Linear(6, 30, bias=False).double()
    x, y = torch.zeros(3, 6, dtype=torch.float64, requires_grad=True), torch.arange(3)
    (ours,) = torch.autograd.grad(ZNormLinearLoss(linear)(x, y), x)
    (theirs,) = torch.autograd.grad(znorm_loss(linear(x), y), x)
    assert bool(ours.isfinite().all())
    torch.testing.assert_close(ours, theirs)


def test_every_array_of_a_step_is_small_whatever_the_number_of_classes() -> None:
    loss, sizes = ZNormLinearLoss(torch.nn.Linear(4, 50_000)), []

    class Sizes(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = function(*args, **(kwargs or {}))
            sizes.append(result.numel() if isinstance(result, torch.Tensor) and "index_add_" not in str(function) else 0)
            return result

    with Sizes():
        x = torch.randn(8, 4, requires_grad=True)
        loss(x, torch.arange(8)).backward()
        loss.step(0.1)
    assert 0 < max(sizes) < 1000


def test_naive_bayes_by_its_formula() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(300, 5)) + 1000, rng.integers(0, 3, 300)
    x[y == 1] += 2
    mean, share = np.stack([x[y == k].mean(0) for k in range(3)]), np.array([(y == k).mean() for k in range(3)])
    variance = sum(share[k] * x[y == k].var(0) for k in range(3)) + 1e-9
    exact = np.log(share) - 0.5 * (((x[:, None] - mean) ** 2) / variance).sum(2)  # (n, c), without what all classes share
    logits = naive_bayes_head(x, y, 3).logits(x)
    np.testing.assert_allclose(logits - logits[:, :1], exact - exact[:, :1], atol=1e-6)
