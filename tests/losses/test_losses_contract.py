"""Laws that hold for every loss of a family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from batches import batch
from torch import Tensor, nn

from hardsight import losses
from hardsight.errors import InputError

HEADS: dict[str, Callable[..., Any]] = {
    "softmax": losses.SoftmaxLoss,
    "avh": losses.AVHLoss,
    "normface": losses.NormFaceLoss,
    "cosface": losses.CosFaceLoss,
    "arcface": losses.ArcFaceLoss,
    "l_softmax": lambda *a, **k: losses.LSoftmaxLoss(*a, base=1.0, **k),
    "a_softmax": losses.ASoftmaxLoss,
    "gm": losses.GMLoss,
    "lgm": losses.LGMLoss,
    "lgm_shared": lambda *a, **k: losses.LGMLoss(*a, covariance="shared", **k),
    "lgm_per_class": lambda *a, **k: losses.LGMLoss(*a, covariance="per_class", **k),
    "center": losses.CenterLoss,
    "normalized_softmax": losses.NormalizedSoftmaxLoss,
    "dual_head": losses.DualHeadLoss,
}
LOGIT_LOSSES: dict[str, Callable[..., Any]] = {
    "sum_exp": lambda **k: losses.CompSumLoss(tau=0, **k),
    "cross_entropy": lambda **k: losses.CompSumLoss(tau=1, **k),
    "gce": lambda **k: losses.CompSumLoss(tau=1.7, **k),
    "mae": lambda **k: losses.CompSumLoss(tau=2, **k),
    "truncated_gce": lambda **k: losses.TruncatedGCELoss(k=0.01, **k),
    "znorm": losses.ZNormLoss,
    "ldr": losses.LDRLoss,
    "ldr_l1": lambda **k: losses.LDRLoss(normalize="l1", **k),
}
PAIR_LOSSES: dict[str, Callable[..., Any]] = {
    "contrastive": losses.ContrastiveLoss,
    "triplet": losses.TripletLoss,
    "triplet_semihard": lambda **k: losses.TripletLoss(mining="semihard", **k),
    "proto_triplet": losses.ProtoTripletLoss,
    "icnn": losses.ICNNLoss,
    "triplet_hard": lambda **k: losses.TripletLoss(mining="hard", **k),
    "contrastive_hard": lambda **k: losses.ContrastiveLoss(mining="hard", **k),
    "supcon": losses.SupConLoss,
}


# Losses that take more than features or logits: what learns and labels -> the loss, the rest being held.
OTHERS: dict[str, Callable[..., Tensor]] = {
    "aldr": lambda z, y: losses.ALDRLoss(len(y)).to(z.dtype)(z, y, torch.arange(len(y))),
    "aldr_eval": lambda z, y: losses.ALDRLoss(len(y)).eval()(z, y, torch.arange(len(y))),
    "ens": lambda z, y: losses.EnsLoss(generator=torch.Generator().manual_seed(0))(z[:, :2], y % 2),
    "binary_kl": lambda z, y: losses.binary_kl_loss(z, torch.linspace(-3, 3, z.numel(), dtype=z.dtype).reshape(z.shape)),
    "dual_head": lambda x, y: _taught(x, y),
    "smooth_adversarial": lambda weight, y: _smooth(weight, y),
}


def _taught(x: Tensor, y: Tensor) -> Tensor:
    """Two heads and a confident teacher."""
    torch.manual_seed(1)
    c = max(2, int(y.max()) + 1)
    loss = losses.DualHeadLoss(x.shape[1], c, hidden=3).to(x.dtype)
    return loss(x, y, 50 * torch.eye(c, dtype=x.dtype)[y.flip(0)])


def _smooth(weight: Tensor, y: Tensor) -> Tensor:
    """For a one-layer network, whose weight is trained; the initial noise of the search is fixed."""
    torch.manual_seed(1)
    inputs = torch.randn(len(y), len(weight)).to(weight.dtype)
    loss = losses.SmoothAdversarialCompSumLoss(nu=0.5, radius=0.1, step=0.05, steps=2, low=None, high=None)
    return loss(lambda x: x @ weight, inputs, y)


def made(name: str, d: int = 7, c: int = 5, dtype: Any = None, **options: Any) -> Any:
    torch.manual_seed(1)
    return HEADS[name](d, c, **options).to(dtype or torch.float64).eval()  # eval: no center or step moves


# Heads


@pytest.mark.parametrize("name", HEADS)
def test_head_reductions_and_class_weights_follow_torch(name: str) -> None:
    x, y = batch()
    weight = torch.tensor([0.0, 1.0, 2.0, 3.0, 0.5], dtype=torch.float64)
    each = made(name, reduction="none")(x, y)
    assert each.shape == (12,)
    torch.testing.assert_close(made(name)(x, y), each.mean())
    torch.testing.assert_close(made(name, reduction="sum")(x, y), each.sum())
    weighted = made(name, class_weight=weight)(x, y)
    torch.testing.assert_close(weighted, (each * weight[y]).sum() / weight[y].sum())
    torch.testing.assert_close(made(name, class_weight=weight, reduction="none")(x, y), each * weight[y])


@pytest.mark.parametrize("name", HEADS)
def test_head_is_the_logits(name: str) -> None:
    x, _ = batch()
    loss = made(name)
    if loss.weight.shape[0] == 5 and getattr(loss, "log_variance", None) is not None:
        nn.init.normal_(loss.log_variance)
    torch.testing.assert_close(loss.head.logits(x), loss.logits(x).detach(), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("name", HEADS)
def test_head_takes_over_a_linear_layer_and_can_be_saved(name: str) -> None:
    linear = nn.Linear(7, 5).double()
    loss, other = made(name).load_linear(linear), HEADS[name](7, 5).double()
    assert torch.equal(loss.weight, linear.weight) and loss.weight.requires_grad
    assert (loss.num_classes, loss.num_features) == (5, 7)
    other.load_state_dict(loss.state_dict())
    x, y = batch()
    assert torch.equal(loss(x, y), other.eval()(x, y))
    with pytest.raises(InputError, match=r"\(5, 7\)"):
        loss.load_linear(nn.Linear(7, 4))


@pytest.mark.parametrize("name", HEADS)
def test_head_gradients_are_those_of_its_value(name: str) -> None:
    x, y = batch(n=6, d=4, c=3, seed=3)
    loss = made(name, d=4, c=3)
    parameters = [p for p in loss.parameters() if p.requires_grad and (name != "dual_head" or p is loss.weight)]

    def value(x: Tensor, *_: Tensor) -> Tensor:
        return loss(x, y)

    assert torch.autograd.gradcheck(value, (x.requires_grad_(), *parameters), atol=1e-6)


@pytest.mark.parametrize("c", [2, 5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", HEADS)
def test_head_is_finite_along_opposite_and_at_zero(name: str, dtype: Any, c: int) -> None:
    loss = made(name, c=c, dtype=torch.float32)
    with torch.no_grad():
        loss.weight[1] = 0  # a class without a direction
    x = torch.stack([loss.weight[0], -loss.weight[0], 0 * loss.weight[0], 1e-20 * loss.weight[0], 100 * loss.weight[0]])
    x = x.detach().to(dtype).requires_grad_()
    for labels in (torch.zeros(5, dtype=torch.int64), torch.ones(5, dtype=torch.int64)):
        value = loss(x, labels) if dtype == torch.float32 or name not in ("softmax", "center", "dual_head") else None
        if value is None:  # a plain linear layer wants one precision: run it as mixed precision does
            with torch.autocast("cpu", dtype=torch.bfloat16):
                value = loss(x, labels)
        value.backward()
        assert value.isfinite() and x.grad is not None and x.grad.isfinite().all()
        assert all(p.grad.isfinite().all() for p in loss.parameters() if p.grad is not None)
        assert x.grad.dtype == dtype


@pytest.mark.parametrize("name", HEADS)
def test_head_with_many_classes(name: str) -> None:
    x, y = batch(n=4, d=8, c=100_000, dtype=torch.float32)
    loss = made(name, d=8, c=100_000, dtype=torch.float32)
    x.requires_grad_()
    loss(x, y).backward()
    assert x.grad is not None and x.grad.isfinite().all() and x.grad.abs().sum() > 0
    assert loss.weight.grad.isfinite().all() and loss.weight.grad[y].abs().sum() > 0


@pytest.mark.parametrize("name", HEADS)
def test_evaluation_knows_no_margin(name: str) -> None:
    """Public ports evaluate with the margin on: here logits() is the same however large the margin, and the loss is not."""
    x, y = batch()
    loss = made(name)
    assert loss.logits(x).shape == (12, 5)
    assert torch.equal(loss.logits(x).argmax(1), torch.as_tensor(loss.head.logits(x)).argmax(1))
    margins = {"cosface": "margin", "arcface": "margin", "lgm": "alpha", "lgm_shared": "alpha", "lgm_per_class": "alpha"}
    if name in margins:
        wide, none = made(name, **{margins[name]: 0.9}), made(name, **{margins[name]: 0.0})  # type: ignore[arg-type]
        torch.testing.assert_close(wide.logits(x), none.logits(x))
        assert wide(x, y) > none(x, y) + 0.01


@pytest.mark.parametrize("name", HEADS)
def test_head_refuses_what_does_not_fit(name: str) -> None:
    x, y = batch()
    for features, labels, options, message in (
        (x[:, :6], y, {}, r"features must have shape \(n, 7\)"),
        (x, y[:5], {}, "one label per sample"),
        (x, torch.arange(len(y)) % 5 + 1, {}, "labels must be 0 to 4, got 1 to 5. Labels look counted from 1: subtract 1."),
        (x, y - y - 1, {}, "unlabeled"),
        (x, y.double(), {}, "class indices"),
        (x, y, {"reduction": "average"}, "reduction"),
        (x, y, {"class_weight": [1.0, 2.0]}, "class_weight"),
        (x, y, {"c": 1}, "two classes"),
    ):
        with pytest.raises(InputError, match=message):
            made(name, **options)(features, labels)


# Logit losses


@pytest.mark.parametrize("name", LOGIT_LOSSES)
def test_logit_loss_contract(name: str) -> None:
    z, y = batch(d=5)
    each = LOGIT_LOSSES[name](reduction="none")(z, y)
    assert each.shape == (12,)
    torch.testing.assert_close(LOGIT_LOSSES[name]()(z, y), each.mean())
    torch.testing.assert_close(LOGIT_LOSSES[name](reduction="sum")(z, y), each.sum())
    assert torch.autograd.gradcheck(lambda z: LOGIT_LOSSES[name]()(z, y), (z.requires_grad_(),))
    with pytest.raises(InputError, match="labels must be 0 to 4"):
        LOGIT_LOSSES[name]()(z, y + 5)
    with pytest.raises(InputError, match="at least two classes"):
        LOGIT_LOSSES[name]()(z[:, :1], y)


# Pair losses


@pytest.mark.parametrize("name", PAIR_LOSSES)
def test_pair_loss_contract(name: str) -> None:
    x, y = batch(c=3)
    loss = PAIR_LOSSES[name]()
    torch.testing.assert_close(loss(x, y), PAIR_LOSSES[name](reduction="none")(x, y).mean())
    torch.testing.assert_close(PAIR_LOSSES[name](reduction="sum")(x, y), PAIR_LOSSES[name](reduction="none")(x, y).sum())
    order = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(loss(x, y), loss(x[order], y[order]))
    torch.testing.assert_close(loss(x, y), loss(x, y * 7 + 100))  # labels are names only
    assert torch.autograd.gradcheck(lambda x: loss(x, y), (x.requires_grad_(),))
    with pytest.raises(InputError, match="one label per sample"):
        loss(x, y[:3])


# Others


@pytest.mark.parametrize("name", OTHERS)
def test_other_gradients_are_those_of_the_value(name: str) -> None:
    """Random or adapted values are not part of the gradient: for these losses, a gradient step must lower the value."""
    x, y = batch(d=5)
    moves = {"aldr": "temperatures", "ens": "slopes"}
    if name not in moves:
        assert torch.autograd.gradcheck(lambda x: OTHERS[name](x, y), (x.requires_grad_(),), atol=1e-6)
        return
    (gradient,) = torch.autograd.grad(OTHERS[name](x.requires_grad_(), y), x)
    with torch.no_grad():  # a step against the gradient, small enough to be straight
        step = 1e-4 * gradient / gradient.norm()
        assert OTHERS[name](x - step, y) < OTHERS[name](x, y), moves[name]


# Finite everywhere, with gradients of the same precision


def check_finite(loss: Callable[[Tensor, Tensor], Tensor], x: Tensor, *labels: Any) -> None:
    x.requires_grad_()
    for y in labels:
        value = loss(x, torch.as_tensor(y))
        value.backward()
        assert value.isfinite() and x.grad is not None and x.grad.isfinite().all() and x.grad.dtype == x.dtype


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", [*LOGIT_LOSSES, *OTHERS])
def test_logits_at_the_ends(name: str, dtype: Any) -> None:
    for c in (2, 5, 1000) if name in LOGIT_LOSSES else (2, 5):
        z = torch.zeros(6, c, dtype=dtype)
        z[1, 0], z[2, 0], z[3], z[4, 1], z[5] = 200, -200, 1e4, 1e-20, -1
        loss = LOGIT_LOSSES[name]() if name in LOGIT_LOSSES else OTHERS[name]
        check_finite(loss, z, [0] * 6, torch.arange(6) % c)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", PAIR_LOSSES)
def test_pairs_that_coincide(name: str, dtype: Any) -> None:
    x = torch.zeros(6, 4, dtype=dtype)
    x[2:4], x[4], x[5] = 1.0, 1e-20, -1.0
    check_finite(PAIR_LOSSES[name](), x, [0, 1, 0, 1, 0, 1], [0] * 6)


# All of them


def test_every_public_loss_is_in_a_family_test() -> None:
    tested = {type(make(7, 5)) for make in HEADS.values()}
    tested |= {type(make()) for make in (*LOGIT_LOSSES.values(), *PAIR_LOSSES.values())}
    tested |= {losses.ALDRLoss, losses.EnsLoss, losses.SmoothAdversarialCompSumLoss}  # of OTHERS
    public = {getattr(losses, name) for name in losses.__all__ if name.endswith("Loss") and name != "HeadLoss"}
    assert public == tested


X, Y = torch.zeros(4, 3), torch.tensor([0, 1, 2, 0])
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "smallest_scale": (lambda: losses.smallest_scale(10, 1.0), "between 0 and 1"),
    "scale": (lambda: losses.AVHLoss(3, 4, scale=0.0), "scale"),
    "arcface margin": (lambda: losses.ArcFaceLoss(3, 4, margin=28.6), "radians"),
    "prototypes": (lambda: losses.cosine_prototypes(X, torch.tensor([0, 0, 2, 2])), "at least one sample"),
    "covariance": (lambda: losses.LGMLoss(6, 4, covariance="full"), "identity, shared, per_class"),  # type: ignore[arg-type]
    "prior": (lambda: losses.LGMLoss(6, 4, prior=[0.5, 0.5]), "4 positive numbers"),
    "sum of priors": (lambda: losses.LGMLoss(6, 4, prior=[1.0] * 4), "sum to 1"),
    "bounds": (lambda: losses.LGMLoss(6, 4, bounds=(4.0, -4.0)), "lower one first"),
    "alpha": (lambda: losses.LGMLoss(6, 4, alpha=-1.0), "alpha"),
    "step_up from 0": (lambda: losses.LGMLoss(3, 2, step_up=(0, 10, 5)), "step_up must be"),
    "step_up by 1": (lambda: losses.LGMLoss(3, 2, step_up=(0.1, 1, 5)), "step_up must be"),
    "step_up every 0": (lambda: losses.LGMLoss(3, 2, step_up=(0.1, 2, 0)), "step_up must be"),
    "step_up and warmup": (lambda: losses.LGMLoss(3, 2, step_up=(0.1, 2, 5), warmup_epochs=3), "not both"),
    "znorm target": (lambda: losses.znorm_loss(X, Y, target=2.0), r"below sqrt\(c - 1\) = 1.414"),
    "aldr indices": (lambda: losses.ALDRLoss(10)(X, Y, torch.arange(3)), "one index per sample"),
    "aldr alpha": (lambda: losses.ALDRLoss(10, alpha=1.0), "above 1"),
    "ens": (lambda: losses.ens_loss(X, Y), "two classes"),
    "teacher": (lambda: losses.DualHeadLoss(3, 4)(X, Y, X), r"\(n, 4\)"),
    "q 0": (lambda: losses.TruncatedGCELoss(q=0), "q must"),
    "q 1.1": (lambda: losses.TruncatedGCELoss(q=1.1), "q must"),
    "k 1": (lambda: losses.TruncatedGCELoss(k=1), "k must"),
    "k -0.1": (lambda: losses.TruncatedGCELoss(k=-0.1), "k must"),
    "warmup_epochs": (lambda: losses.TruncatedGCELoss(warmup_epochs=-1), "warmup_epochs"),
    "mining": (lambda: losses.triplet_loss(X, Y, mining="hardest"), "all, semihard"),  # type: ignore[arg-type]
    "prototype": (lambda: losses.proto_triplet_loss(X, X[:1], Y), "two prototypes"),
    "neighbors": (lambda: losses.icnn_scores(X, Y, neighbors=0), "one neighbor"),
    "one sample": (lambda: losses.icnn_scores(X[:1], Y[:1]), "two samples"),
    "two views": (lambda: losses.info_nce_loss(X, X[:2]), "same shape"),
    "temperature": (lambda: losses.SupConLoss(temperature=0), "temperature"),
    "num_features": (lambda: losses.SupConLoss(projection=4), "num_features"),
    "projection": (lambda: losses.SupConLoss(projection=2.5, num_features=6), "projection"),  # type: ignore[arg-type]
    "reduction": (lambda: losses.SupConLoss(reduction="max"), "reduction"),  # type: ignore[arg-type]
    "projected": (lambda: losses.SupConLoss(projection=3, num_features=3)(X, Y[:3]), "one label per sample"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    call, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        call()


def test_autocast_does_not_touch_the_angles() -> None:
    x, y = batch(dtype=torch.float32)
    angular = ("avh", "normface", "cosface", "arcface", "l_softmax", "a_softmax", "lgm", "lgm_per_class")
    for loss in (*(made(name, dtype=torch.float32) for name in angular), losses.SupConLoss()):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            mixed = loss(x, y)
        assert mixed.dtype == torch.float32 and torch.equal(mixed, loss(x, y)), type(loss)
