"""AVH and the angular margins: by hand, by a loop, against pytorch-metric-learning, and at the ends of the sphere."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F
from torch import Tensor

from hardsight.losses import (
    ASoftmaxLoss,
    LSoftmaxLoss,
    NormalizedSoftmaxLoss,
    NormFaceLoss,
    a_softmax_loss,
    arcface_loss,
    avh_logits,
    avh_loss,
    cosface_loss,
    l_softmax_loss,
    normface_loss,
    smallest_scale,
)
from hardsight.losses.arcface import added_angle
from hardsight.losses.multiplied_angle import Annealing, psi
from hardsight.losses.normface import angles_past_quarter
from oracles import on_circle as circle


def on_circle(*degrees: float, dtype: Any = torch.float64) -> Tensor:
    return torch.from_numpy(circle(*degrees)).to(dtype)


def random_case(n: int = 9, d: int = 6, c: int = 4, dtype: Any = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x, w = torch.randn(n, d, generator=generator, dtype=dtype), torch.randn(c, d, generator=generator, dtype=dtype)
    return x, w, torch.randint(0, c, (n,), generator=generator)


def loop(x: Tensor, w: Tensor, y: Tensor, logit: Callable[[float, float, float, bool], float]) -> Tensor:
    """Cross-entropy pair by pair; logit(angle, |x|, |w|, own)."""
    result = []
    for xi, yi in zip(x.tolist(), y.tolist(), strict=True):
        logits = []
        for k, wk in enumerate(w.tolist()):
            a, b = math.hypot(*xi), math.hypot(*wk)
            angle = math.acos(max(-1.0, min(1.0, sum(p * q for p, q in zip(xi, wk, strict=True)) / a / b)))
            logits.append(logit(angle, a, b, k == yi))
        result.append(math.log(sum(math.exp(z - logits[yi]) for z in logits)))
    return torch.tensor(result, dtype=torch.float64)


def staircase(angle: float, m: int) -> float:
    k = min(int(angle * m / math.pi), m - 1)
    return (-1) ** k * math.cos(m * angle) - 2 * k


def arc(angle: float, m: float) -> float:
    return math.cos(angle + m) if angle < math.pi - m else math.cos(angle) - m * math.sin(m)


CASES: dict[str, tuple[Callable[..., Tensor], dict[str, Any], Callable[[float, float, float, bool], float]]] = {
    "avh": (avh_loss, {"scale": 10.0}, lambda t, x, w, own: -10 * t),
    "normface": (normface_loss, {"scale": 20.0}, lambda t, x, w, own: 20 * math.cos(t)),
    "cosface": (cosface_loss, {"scale": 16.0}, lambda t, x, w, own: 16 * (math.cos(t) - 0.35 * own)),
    "arcface": (arcface_loss, {"scale": 16.0}, lambda t, x, w, own: 16 * (arc(t, 0.5) if own else math.cos(t))),
    "l_softmax": (l_softmax_loss, {"m": 3}, lambda t, x, w, own: x * w * (staircase(t, 3) if own else math.cos(t))),
    "a_softmax": (a_softmax_loss, {}, lambda t, x, w, own: x * (staircase(t, 4) if own else math.cos(t))),
    "a_softmax annealed": (
        a_softmax_loss,
        {"plain": 5.0},
        lambda t, x, w, own: x * ((5 * math.cos(t) + staircase(t, 4)) / 6 if own else math.cos(t)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_value_against_a_loop(name: str) -> None:
    loss, options, logit = CASES[name]
    x, w, y = random_case()
    torch.testing.assert_close(loss(x, w, y, reduction="none", **options), loop(x, w, y, logit))
    if name == "avh":  # it ignores every length
        torch.testing.assert_close(avh_loss(x * 7, w * torch.rand(4, 1).add(0.1), y), avh_loss(x, w, y))


@pytest.mark.parametrize("n, c", [(1, 4), (4, 4), (64, 3), (3, 70_000)])
def test_blocks_do_not_show(n: int, c: int) -> None:
    """One sample, as many as classes, several blocks of rows, a row longer than a block: value and both gradients."""
    x, w, y = random_case(n=n, c=c, d=5)
    x, w = x.requires_grad_(), w.requires_grad_()
    weight = torch.rand(n, dtype=torch.float64)
    fused = torch.autograd.grad((avh_loss(x, w, y, reduction="none") * weight).sum(), (x, w))
    plain = torch.autograd.grad((F.cross_entropy(avh_logits(x, w), y, reduction="none") * weight).sum(), (x, w))
    torch.testing.assert_close(fused, plain)


def test_rows_in_several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    from hardsight.losses import cosine_softmax

    x, w, y = random_case()
    whole = arcface_loss(x.requires_grad_(), w, y)
    monkeypatch.setattr(cosine_softmax, "BLOCK", 8)  # two rows at a time, the last alone
    torch.testing.assert_close(arcface_loss(x, w, y), whole)
    torch.testing.assert_close(torch.autograd.grad(arcface_loss(x, w, y), x), torch.autograd.grad(whole, x))


def test_gradients_of_few_and_of_many_classes_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """With few classes, the component along the vectors is summed from the cosines; with many, from the vectors."""
    from hardsight.losses import cosine_softmax

    x, w, y = random_case(n=9)
    with torch.no_grad():
        x[0], x[1], w[3] = 2 * w[y[0]], 0.0, 0.0  # along its class, and without a direction
    upstream, made = torch.rand(9).double(), []
    for few in (cosine_softmax.FEW, 0):
        monkeypatch.setattr(cosine_softmax, "FEW", few)
        losses = avh_loss(x.requires_grad_(), w.requires_grad_(), y, scale=7.0, reduction="none")
        made.append(torch.autograd.grad(losses @ upstream, (x, w)))
    aligned = (0, y[0])  # rows of x and w: their gradients divide by the sine of a vanishing angle, which magnifies rounding
    for few_classes, many_classes, row in zip(*made, aligned, strict=True):
        torch.testing.assert_close(few_classes[row], many_classes[row], rtol=0, atol=1e-9)
        few_classes[row] = many_classes[row]
        torch.testing.assert_close(few_classes, many_classes, rtol=0, atol=1e-11)


def test_avh_is_cross_entropy_on_minus_the_angles() -> None:
    weight = on_circle(0, 90, 180)
    z = -10 * torch.tensor([[30.0, 60.0, 150.0]], dtype=torch.float64).deg2rad()
    expected = F.cross_entropy(z, torch.tensor([0]))
    torch.testing.assert_close(avh_loss(3 * on_circle(30), weight, torch.tensor([0])), expected)
    assert avh_loss(on_circle(10), weight, torch.tensor([0])) < avh_loss(on_circle(40), weight, torch.tensor([0]))


def test_avh_gradient_is_bounded_and_across() -> None:
    x, w, y = random_case(n=200, d=3)
    x.requires_grad_()
    (grad,) = torch.autograd.grad(avh_loss(x, w, y, scale=10.0, reduction="sum"), x)
    assert (grad.norm(dim=1) * x.norm(dim=1) <= 20.0 + 1e-9).all()
    torch.testing.assert_close((grad * x).sum(1), torch.zeros(200, dtype=torch.float64), atol=1e-9, rtol=0)


def test_avh_has_no_dead_zone() -> None:
    """A clamp of the cosine stops the hardest samples: here, a tenth of a degree from opposite still learns."""
    weight, x = on_circle(0, -90, dtype=torch.float32), on_circle(179.9, dtype=torch.float32).requires_grad_()
    (grad,) = torch.autograd.grad(avh_loss(x, weight, torch.tensor([0]), scale=10.0), x)
    assert grad.norm() > 9


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("loss", [avh_loss, normface_loss, cosface_loss, arcface_loss, l_softmax_loss, a_softmax_loss])
def test_no_nan_at_the_poles(loss: Any, dtype: Any) -> None:
    """acos and sqrt(1 - cos^2) have infinite slopes there, and infinity times zero is NaN (known in public ports)."""
    weight = torch.eye(3).to(dtype).requires_grad_()
    x = torch.tensor([[1.0, 0, 0], [-1, 0, 0], [0, 0, 0], [3, 0, 0]]).to(dtype).requires_grad_()
    value = loss(x, weight, torch.zeros(4, dtype=torch.int64))
    value.backward()
    assert value.isfinite() and value.dtype == torch.float32
    assert x.grad is not None and x.grad.isfinite().all() and weight.grad is not None and weight.grad.isfinite().all()
    assert (x.grad[2] == 0).all() or loss in (l_softmax_loss, a_softmax_loss)


def test_class_vectors_learn() -> None:
    """A public port detaches the class vectors when it normalizes them, another normalizes over the wrong axis."""
    x, w, y = random_case(n=5, d=6, c=4)
    for loss in (avh_loss, normface_loss, cosface_loss, arcface_loss, a_softmax_loss):
        w.requires_grad_()
        (grad,) = torch.autograd.grad(loss(x, w, y), w)
        assert (grad.norm(dim=1) > 0).all()
        torch.testing.assert_close((grad * w).sum(1), torch.zeros(4, dtype=torch.float64), atol=1e-9, rtol=0)


def test_the_margin_counts() -> None:
    """A public port computes the margin and trains without it; a margin must make the loss larger."""
    x, w, y = random_case()
    plain = normface_loss(x, w, y, scale=16.0)
    assert cosface_loss(x, w, y, margin=0.35, scale=16.0) > plain and arcface_loss(x, w, y, margin=0.5, scale=16.0) > plain
    torch.testing.assert_close(cosface_loss(x, w, y, margin=0.0, scale=16.0), plain)
    torch.testing.assert_close(arcface_loss(x, w, y, margin=0.0, scale=16.0), plain)
    torch.testing.assert_close(l_softmax_loss(x, w, y, m=1), F.cross_entropy(x @ w.T, y))


def test_own_logits_always_fall_with_the_angle() -> None:
    cosine = torch.linspace(-1, 1, 2001, dtype=torch.float64)
    for values in (added_angle(cosine, 0.5), psi(cosine, 2), psi(cosine, 3), psi(cosine, 4)):
        assert (values.diff() > -1e-12).all()
    assert psi(torch.tensor([-1.0]), 3) == -5 and psi(torch.tensor([1.0]), 5) == 1


def test_learned_scale() -> None:
    x, w, y = random_case()
    scale = torch.tensor(5.0, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: normface_loss(x, w, y, scale=s), (scale,))
    loss = NormFaceLoss(6, 4)
    loss(x.float(), y).backward()
    assert loss.log_scale.grad is not None and loss.log_scale.grad != 0
    assert "log_scale" not in dict(NormFaceLoss(6, 4, learn_scale=False).named_parameters())


def test_annealing_starts_plain_and_ends_at_the_floor() -> None:
    loss = ASoftmaxLoss(6, 4, base=10.0).double()
    loss.annealing = loss.annealing._replace(gamma=1.0, smallest=2.0)
    x, _, y = random_case()
    shares = [loss.plain for _ in range(6) if loss(x, y).isfinite()]
    assert shares == pytest.approx([max(2.0, 10 / (1 + step)) for step in range(1, 7)])
    loss.eval()(x, y)
    assert int(loss.step) == 6  # evaluating is no step
    assert Annealing(base=7.0, gamma=1.0, power=2.0, smallest=0.0).at(0) == 7.0
    many = LSoftmaxLoss(6, 4, base=1e9).double().eval()
    torch.testing.assert_close(many(x, y), F.cross_entropy(many.logits(x), y))


def test_scale_table() -> None:
    """The probability that the scale lets a sample reach, at best, as computed by hand for 7, 10 and 1000 classes."""
    for c, s, p in ((7, 1, 0.487), (7, 5, 0.9990), (10, 1, 0.374), (1000, 5, 0.722)):
        assert smallest_scale(c, p) == pytest.approx(s, abs=0.12)


def test_prototypes_of_unseen_classes() -> None:
    loss = NormalizedSoftmaxLoss(2, 2, scale=10.0).double()
    with torch.no_grad():
        loss.weight.copy_(on_circle(0, 90))
    new = on_circle(170, 190, 260, 280) * torch.tensor([[1.0], [5.0], [2.0], [0.1]])
    head = loss.head_with(new, torch.tensor([0, 0, 1, 1]))
    torch.testing.assert_close(head.weight[2:], on_circle(180, 270))
    assert head.logits(on_circle(5, 95, 185, 275)).argmax(1).tolist() == [0, 1, 2, 3]


def test_the_constraint_is_the_angle_past_a_quarter_of_that_to_the_next_class() -> None:
    weight, x = on_circle(0, 80, 200), on_circle(30, 90, 195, 0) * torch.tensor([[1.0], [5.0], [2.0], [0.1]])
    labels = torch.tensor([0, 1, 2, 0])
    past = angles_past_quarter(x, weight, labels)
    by_hand = [30 - 80 / 4, 0.0, 0.0, 0.0]  # 10 of 20 degrees, 5 of 30 and 0 of 20 are within
    torch.testing.assert_close(past, torch.deg2rad(torch.tensor(by_hand)).to(past), atol=1e-6, rtol=0)
    loss = NormalizedSoftmaxLoss(2, 3, constraint=2.0).double()
    with torch.no_grad():
        loss.weight.copy_(weight)
    expected = normface_loss(x, weight, labels, scale=20.0) + 2 * past.mean()
    torch.testing.assert_close(loss(x, labels), expected)
    moving = on_circle(33, 95, 150, 70).requires_grad_(), weight.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x, w: angles_past_quarter(x, w, labels), moving)


# pytorch-metric-learning, where the formula is the same


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # theirs
@pytest.mark.parametrize(
    "theirs, ours",
    [
        (("NormalizedSoftmaxLoss", {"temperature": 0.05}), (normface_loss, {"scale": 20.0})),
        (("CosFaceLoss", {"margin": 0.35, "scale": 64}), (cosface_loss, {})),
        (("ArcFaceLoss", {"margin": 28.64788975654116, "scale": 64}), (arcface_loss, {})),
        (("LargeMarginSoftmaxLoss", {"margin": 4, "scale": 1}), (l_softmax_loss, {"m": 4})),
        (("SphereFaceLoss", {"margin": 4, "scale": 1}), (a_softmax_loss, {"m": 4})),
    ],
    ids=lambda pair: pair[0] if isinstance(pair[0], str) else "",
)
def test_against_pytorch_metric_learning(theirs: Any, ours: Any) -> None:
    peers = pytest.importorskip("pytorch_metric_learning.losses")
    x, w, y = random_case(n=30)
    peer = getattr(peers, theirs[0])(num_classes=4, embedding_size=6, **theirs[1]).double()
    peer.W.data.copy_(w.T)
    torch.testing.assert_close(ours[0](x, w, y, **ours[1]), peer(x, y), rtol=1e-5, atol=1e-5)
