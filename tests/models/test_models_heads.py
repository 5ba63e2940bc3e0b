"""The last linear layer of a torch module, in the shapes people write it: found, read and proven."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F
from torch import Tensor, nn

from hardsight.errors import InputError
from hardsight.models import open_model

IMAGES = np.random.default_rng(0).normal(size=(6, 3, 8, 8)).astype(np.float32)
C, D = 5, 12


def body(*more: nn.Module) -> nn.Sequential:
    """(b, 3, 8, 8) -> (b, D, 4, 4), and whatever comes after."""
    return nn.Sequential(nn.Conv2d(3, D, 3, stride=2, padding=1), nn.ReLU(), *more)


def pooled(*more: nn.Module) -> nn.Sequential:
    return body(nn.AdaptiveAvgPool2d(1), nn.Flatten(), *more)


class Cosine(nn.Module):
    """A layer of its own: scale * cos(x, weight)."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(C, D))

    def forward(self, x: Tensor) -> Tensor:
        return 16.0 * F.linear(F.normalize(x), F.normalize(self.weight))


class CosineLinear(nn.Linear):
    """A subclass of Linear that is not linear."""

    def forward(self, x: Tensor) -> Tensor:
        return 7.0 * F.linear(F.normalize(x), F.normalize(self.weight))


class Columns(nn.Module):
    """Class vectors kept as columns, as in many face-recognition heads."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(D, C))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.kernel


class Angular(Columns):
    def forward(self, x: Tensor) -> Tensor:
        return -4.0 * torch.acos(F.normalize(x) @ F.normalize(self.kernel, dim=0))


class Gaussian(nn.Module):
    """The Gaussian mixture head of LGM: minus half the squared distance to each mean."""

    def __init__(self) -> None:
        super().__init__()
        self.means = nn.Parameter(torch.randn(C, D))

    def forward(self, x: Tensor) -> Tensor:
        return -0.5 * torch.cdist(x, self.means) ** 2


class Formula(nn.Module):
    """No last layer at all: the weight belongs to the model and the product is written out."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.pool = body(), nn.AdaptiveAvgPool2d(1)
        self.prototypes = nn.Parameter(torch.randn(C, D))

    def forward(self, images: Tensor) -> Tensor:
        x = self.pool(self.body(images)).flatten(1)
        return 10.0 * F.normalize(x) @ F.normalize(self.prototypes).T


class Tokens(nn.Module):
    """A small ViT: patches and a class token, a norm, and a head on one token or on all."""

    def __init__(self, read: Callable[[Tensor], Tensor], head_first: bool = False) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, D, 4, stride=4)
        self.block = nn.TransformerEncoderLayer(D, 2, 16, batch_first=True)
        self.norm, self.drop, self.head = nn.LayerNorm(D), nn.Dropout(0.5), nn.Linear(D, C)
        self.token = nn.Parameter(torch.randn(1, 1, D))
        self.read, self.head_first = read, head_first

    def forward(self, images: Tensor) -> Tensor:
        x = self.patch(images).flatten(2).transpose(1, 2)  # (b, 4, D)
        x = self.norm(self.block(torch.cat([self.token.expand(len(x), -1, -1), x], 1)))
        return self.read(self.head(x)) if self.head_first else self.head(self.drop(self.read(x)))


class Returns(nn.Module):
    """The same network, its logits wrapped in something."""

    def __init__(self, wrap: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.net, self.wrap = pooled(nn.Linear(D, C)), wrap

    def forward(self, images: Tensor) -> Any:
        return self.wrap(self.net(images))


def class_token(x: Tensor) -> Tensor:
    return x[:, 0]


def average(x: Tensor) -> Tensor:
    return x.mean(1)


class Output:
    def __init__(self, logits: Tensor) -> None:
        self.logits = logits


HEADS: dict[str, tuple[Callable[[], nn.Module], str, str]] = {
    "linear": (lambda: pooled(nn.Linear(D, C)), "linear", "4"),
    "dropout": (lambda: pooled(nn.Dropout(0.9), nn.Linear(D, C)), "linear", "5"),
    "bias-free": (lambda: pooled(nn.Linear(D, C, bias=False)), "linear", "4"),
    "deep in the tree": (
        lambda: nn.Sequential(body(), nn.Sequential(nn.Flatten(), nn.Sequential(nn.Linear(16 * D, C)))),
        "linear",
        "1.1.0",
    ),
    "compiled": (lambda: nn.Sequential(pooled(), torch.compile(nn.Sequential(nn.Linear(D, C)))), "linear", "1._orig_mod.0"),
    "two in a row": (lambda: pooled(nn.Linear(D, C), nn.Linear(C, C)), "linear", "5"),
    "mlp": (lambda: pooled(nn.Linear(D, D), nn.GELU(), nn.LayerNorm(D), nn.Linear(D, C)), "linear", "7"),
    "1x1 conv after pooling": (lambda: body(nn.AdaptiveAvgPool2d(1), nn.Conv2d(D, C, 1), nn.Flatten()), "linear", "3"),
    "1x1 conv before pooling": (
        lambda: body(nn.Dropout(), nn.Conv2d(D, C, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        "linear",
        "3",
    ),
    "1x1 conv, not flattened": (lambda: body(nn.AdaptiveAvgPool2d(1), nn.Conv2d(D, C, 1)), "linear", "3"),
    "weight norm": (lambda: pooled(nn.utils.parametrizations.weight_norm(nn.Linear(D, C, bias=False))), "linear", "4"),
    "columns": (lambda: pooled(Columns()), "linear", "4.kernel"),
    "cosine layer": (lambda: pooled(Cosine()), "cosine", "4.weight"),
    "cosine subclass of Linear": (lambda: pooled(CosineLinear(D, C)), "cosine", "4"),
    "cosine formula": (Formula, "cosine", "prototypes"),
    "angular": (lambda: pooled(Angular()), "angular", "4.kernel"),
    "gaussian": (lambda: pooled(Gaussian()), "gaussian", "4.means"),
    "ViT, class token": (lambda: Tokens(class_token), "linear", "head"),
    "ViT, average": (lambda: Tokens(average), "linear", "head"),
    "ViT, head then class token": (lambda: Tokens(class_token, head_first=True), "linear", "head"),
    "ViT, head then average": (lambda: Tokens(average, head_first=True), "linear", "head"),
    "softmax": (lambda: pooled(nn.Linear(D, C), nn.Softmax(1)), "linear", "4"),
    "log softmax": (lambda: pooled(nn.Linear(D, C), nn.LogSoftmax(1)), "linear", "4"),
    "cosine, softmax": (lambda: pooled(Cosine(), nn.Softmax(1)), "cosine", "4.weight"),
    "returns a tuple": (lambda: Returns(lambda x: (x, None)), "linear", "net.4"),
    "returns a dict": (lambda: Returns(lambda x: {"other": x[:, :2], "logits": x}), "linear", "net.4"),
    "returns an object": (lambda: Returns(Output), "linear", "net.4"),
    "zeros, as fresh vision transformers have it": (lambda: filled(0.0), "linear", "4"),
}


@pytest.mark.filterwarnings("ignore")  # those of torch.compile
@pytest.mark.parametrize("shape", HEADS)
def test_the_head_is_found_and_reproduces_the_model(shape: str) -> None:
    make, kind, layer = HEADS[shape]
    torch.manual_seed(0)
    module = make().train()  # as it would be in the middle of training
    model = open_model(module)
    features, logits = model(IMAGES)
    assert (model.head.kind, model.layer) == (kind, layer)  # type: ignore[attr-defined]
    assert features.dtype == logits.dtype == np.float32
    assert logits.shape == (6, C) and features.shape == (6, model.head.num_features)
    np.testing.assert_allclose(model.head.logits(features), logits, rtol=1e-3, atol=1e-3 * np.abs(logits).max())
    if shape in ("softmax", "log softmax"):  # they come back as logits
        with torch.no_grad():
            expected = module[:-1].eval()(torch.from_numpy(IMAGES))  # type: ignore[index]
        np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)
        module.train()
    assert module.training and all(layer.training for layer in module.modules())
    assert not any(layer._forward_hooks or layer._forward_pre_hooks for layer in module.modules())


def test_the_same_features_as_by_hand() -> None:
    torch.manual_seed(1)
    module = body(nn.Conv2d(D, C, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()).eval()
    features, logits = open_model(module)(IMAGES)
    with torch.no_grad():
        maps = module[:2](torch.from_numpy(IMAGES))  # (6, D, 4, 4)
        np.testing.assert_allclose(features, maps.mean((2, 3)), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(logits, module(torch.from_numpy(IMAGES)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("layer", "scale"), [(Cosine, 16.0), (CosineLinear, 7.0), (Angular, 4.0)])
def test_the_scale_of_a_head_is_measured(layer: Callable[..., nn.Module], scale: float) -> None:
    torch.manual_seed(2)
    model = open_model(pooled(layer(D, C) if layer is CosineLinear else layer()))
    model.check(IMAGES)
    assert model.head.scale == pytest.approx(scale, rel=1e-5)


@pytest.mark.parametrize(
    "wrap",
    [nn.DataParallel, torch.compile, lambda net: torch.compile(nn.DataParallel(net)), torch.optim.swa_utils.AveragedModel],
    ids=["DataParallel", "compile", "both", "AveragedModel"],
)
@pytest.mark.filterwarnings("ignore")
def test_wrappers_are_looked_through(wrap: Any) -> None:
    torch.manual_seed(4)
    net = pooled(nn.Linear(D, C))
    plain, wrapped = open_model(net), open_model(wrap(net), head="module.4")
    for ours, theirs in zip(plain(IMAGES), wrapped(IMAGES), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert plain.fingerprint()["sha256"] == wrapped.fingerprint()["sha256"]


def test_one_forward_pass_per_batch() -> None:
    net = pooled(nn.Linear(D, C))
    model = open_model(net)
    model.check(IMAGES)
    calls: list[int] = []
    net.register_forward_hook(lambda *_: calls.append(1))
    model(IMAGES)
    assert len(calls) == 1


class TwoHeads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.main, self.aux = pooled(), nn.Linear(D, C), nn.Linear(D, C + 2)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        x = self.body(images)
        return self.main(x), self.aux(x)


def test_one_of_several_heads_is_chosen() -> None:
    net = TwoHeads()
    assert open_model(net, head="aux")(IMAGES)[1].shape == (6, 7)
    by_classes = open_model(net, num_classes=5)
    by_classes.check(IMAGES)
    assert by_classes.layer == "main"  # type: ignore[attr-defined]


def test_a_head_that_is_not_linear_must_be_chosen() -> None:
    torch.manual_seed(5)
    net = pooled(nn.Linear(D, C), nn.Tanh())
    with pytest.warns(UserWarning, match="not that of its layer 4"):
        features, logits = open_model(net, head="4")(IMAGES)
    with torch.no_grad():
        np.testing.assert_allclose(logits, net[:-1].eval()(torch.from_numpy(IMAGES)), rtol=1e-4, atol=1e-5)


REFUSED: dict[str, tuple[Callable[[], nn.Module], dict[str, Any], str]] = {
    "several heads": (TwoHeads, {}, r"main \(5, 12\), aux \(7, 12\)\. Choose with --head-layer NAME"),
    "other classes": (TwoHeads, {"num_classes": 3}, "returns 5 and 7 classes, but num_classes is 3"),
    "not linear": (lambda: pooled(nn.Linear(D, C), nn.Tanh()), {}, r"Tried: 4 \(5, 12\), off by \d+%.*--head-layer 4"),
    "no such layer": (TwoHeads, {"head": "mian"}, "'mian'. Near that name: main"),
    "two classes out of nothing": (
        lambda: pooled(nn.Linear(D, 3), nn.ConstantPad1d((0, 2), 0.0)), {}, r"4 \(3, 12\).*--head-layer 4 --fit-head",
    ),
    "no linear layer": (lambda: pooled(nn.ReLU()), {}, "hardsight score features.npy --labels"),
    "no linear layer of that name": (lambda: pooled(nn.ReLU()), {"head": "fc"}, "hardsight score features.npy --labels"),
    "a ReLU that cuts something off": (lambda: squeezed(bias=0.0), {}, r"2 \(5, 12\), off by .*--head-layer 2 --fit-head"),
    "images of another shape": (lambda: nn.Sequential(nn.Conv2d(1, 3, 1), pooled(nn.Linear(D, C))), {}, r"shape \(3, 8, 8\)"),
    "no logits": (body, {}, "must return logits of shape"),
    "weights of NaN": (lambda: filled(float("nan")), {}, "not finite on the first images"),
    "no such device": (TwoHeads, {"device": "cuda:77"}, "'cuda:77'"),
    "no such precision": (TwoHeads, {"precision": "int8"}, "float32, bfloat16, float16, got 'int8'"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    make, options, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        open_model(make(), **options).check(IMAGES)


def filled(value: float) -> nn.Sequential:
    """A last layer of one number."""
    net = pooled(nn.Linear(D, C))
    for parameter in net[4].parameters():
        nn.init.constant_(parameter, value)
    return net


class Averaged(nn.Module):
    """Two linear layers on two features, averaged, as in a distilled transformer."""

    def __init__(self, bias: bool = True) -> None:
        super().__init__()
        self.body, self.head, self.head_dist = pooled(), nn.Linear(D, C, bias=bias), nn.Linear(2 * D, C)

    def forward(self, images: Tensor) -> Tensor:
        x = self.body(images)
        first: Tensor = self.head(x)
        return (first + self.head_dist(torch.cat([x, x**2], 1))) / 2


@pytest.mark.parametrize("bias", [True, False])
def test_two_averaged_heads_are_one_on_both_features(bias: bool) -> None:
    torch.manual_seed(7)
    net = Averaged(bias)
    model = open_model(net)
    features, logits = model(IMAGES)
    assert model.layer == "head + head_dist" and features.shape == (6, 3 * D)  # type: ignore[attr-defined]
    with torch.no_grad():
        x = net.eval().body(torch.from_numpy(IMAGES))
        np.testing.assert_allclose(features, torch.cat([x, x, x**2], 1), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(logits, net(torch.from_numpy(IMAGES)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.head.logits(features), logits, rtol=1e-4, atol=1e-6)
    assert model.head.weight[:, :D] == pytest.approx(net.head.weight.detach().numpy() / 2)


def squeezed(bias: float) -> nn.Sequential:
    """The head of a SqueezeNet: a convolution to the classes, a ReLU, and the average over all positions."""
    torch.manual_seed(9)
    net = body(nn.Conv2d(D, C, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    nn.init.constant_(net[2].bias, bias)  # type: ignore[arg-type]
    return net


def test_a_relu_that_cuts_nothing_off_leaves_a_head_linear() -> None:
    net = squeezed(bias=20.0)
    model = open_model(net)
    features, logits = model(IMAGES)
    assert model.layer == "2"  # type: ignore[attr-defined]
    np.testing.assert_allclose(model.head.logits(features), logits, rtol=1e-4)
    with pytest.raises(InputError, match="on the first images but not on all.*pass --head-layer 2 --fit-head"):
        model(100 * IMAGES)  # now it cuts something off
    chosen = open_model(net, head="2")  # the way out
    chosen.check(IMAGES)
    assert chosen(100 * IMAGES)[0].shape == (6, D)


def test_a_network_that_fails_on_a_later_batch() -> None:
    def fails(logits: Tensor) -> Tensor:
        if len(logits) == 3:
            raise ValueError("three are too many")
        return logits

    model = open_model(Returns(fails))
    model.check(IMAGES)
    with pytest.raises(InputError, match="could not run on images of shape .*three are too many"):
        model(IMAGES[:3])


def test_the_head_needs_a_batch_first() -> None:
    with pytest.raises(InputError, match=r"call model\.check\(batch\)"):
        _ = open_model(TwoHeads()).head
    with pytest.raises(InputError, match="at least one image"):
        open_model(TwoHeads()).check(IMAGES[:0])


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_reduced_precision_returns_float32_near_the_full(precision: str) -> None:
    torch.manual_seed(6)
    net = pooled(nn.Linear(D, C))
    full, reduced = open_model(net), open_model(net, precision=precision)
    for exact, rounded in zip(full(IMAGES), reduced(IMAGES), strict=True):
        assert rounded.dtype == np.float32
        np.testing.assert_allclose(rounded, exact, rtol=0.05, atol=0.05)
        assert not np.array_equal(rounded, exact)
