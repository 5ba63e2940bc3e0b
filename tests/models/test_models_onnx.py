"""ONNX graphs: built by hand in every orientation, and exported from torch."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from onnx import TensorProto, helper, numpy_helper

from hardsight.errors import HardsightError, InputError
from hardsight.models import open_model

RNG = np.random.default_rng(0)
C, D = 4, 12
IMAGES = RNG.normal(size=(5, 3, 2, 2)).astype(np.float32)
WEIGHT = RNG.normal(size=(C, D)).astype(np.float32)
BIAS = RNG.normal(size=C).astype(np.float32)
FLAT = np.maximum(IMAGES.reshape(5, D), 0)  # every graph starts with a ReLU and a Flatten


def node(op: str, inputs: str, output: str, **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), [output], name=f"{op}_{output}", **attributes)


def graph(
    path: Path, *nodes: Any, outputs: str = "y", batch: Any = "b", shape: Any = (3, 2, 2), start: Any = None, **arrays: Any
) -> Path:
    """A model file: images -> Relu -> Flatten -> f -> the given nodes."""
    start = [node("Relu", "x", "r"), node("Flatten", "r", "f")] if start is None else start
    made = helper.make_graph(
        [*start, *nodes],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, *shape])],
        [helper.make_empty_tensor_value_info(name) for name in outputs.split()],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in arrays.items()],
    )
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


LINEAR, TRANSPOSED = FLAT @ WEIGHT.T + BIAS, WEIGHT.T.copy()
GEMM = node("Gemm", "f w k", "g", transB=1)
LAYER = {"w": WEIGHT, "k": BIAS}
GRAPHS: dict[str, tuple[list[Any], dict[str, Any], np.ndarray]] = {
    "Gemm transB": ([node("Gemm", "f w k", "y", transB=1)], LAYER, LINEAR),
    "Gemm": ([node("Gemm", "f w k", "y")], {"w": TRANSPOSED, "k": BIAS}, LINEAR),
    "Gemm alpha beta": (
        [node("Gemm", "f w k", "y", transB=1, alpha=2.0, beta=0.5)], {"w": WEIGHT, "k": BIAS[None]},
        2 * FLAT @ WEIGHT.T + 0.5 * BIAS,
    ),
    "Gemm, no bias": ([node("Gemm", "f w", "y", transB=1)], {"w": WEIGHT}, FLAT @ WEIGHT.T),
    "MatMul": ([node("MatMul", "f w", "y")], {"w": TRANSPOSED}, FLAT @ WEIGHT.T),
    "MatMul Add": ([node("MatMul", "f w", "m"), node("Add", "m k", "y")], {"w": TRANSPOSED, "k": BIAS}, LINEAR),
    "Add the other way": ([node("MatMul", "f w", "m"), node("Add", "k m", "y")], {"w": TRANSPOSED, "k": BIAS}, LINEAR),
    "transposed on the way": (
        [node("Transpose", "w", "t", perm=[1, 0]), node("Identity", "t", "i"), node("MatMul", "f i", "y")],
        {"w": WEIGHT}, FLAT @ WEIGHT.T,
    ),
    "scaled, shifted": (
        [node("MatMul", "f w", "m"), node("Sub", "m k", "s"), node("Mul", "s t", "u"), node("Div", "u h", "y")],
        {"w": TRANSPOSED, "k": BIAS, "t": np.float32(6.0), "h": np.float32(2.0)}, 3 * (FLAT @ WEIGHT.T - BIAS),
    ),
    "Identity, Cast and Reshape": (
        [GEMM, node("Identity", "g", "i"), node("Cast", "i", "j", to=1), node("Reshape", "j s", "y")],
        {**LAYER, "s": np.array([-1, C])}, LINEAR,
    ),
    "Softmax": ([GEMM, node("Softmax", "g", "y", axis=1)], LAYER, LINEAR),
    "LogSoftmax": ([GEMM, node("LogSoftmax", "g", "y", axis=1)], LAYER, LINEAR),
}  # fmt: skip


@pytest.mark.parametrize("shape", GRAPHS)
def test_the_last_layer_is_found(shape: str, tmp_path: Path) -> None:
    nodes, arrays, expected = GRAPHS[shape]
    model = open_model(graph(tmp_path / "m.onnx", *nodes, **arrays))
    features, logits = model(IMAGES)
    np.testing.assert_allclose(features, FLAT, rtol=1e-6)
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(model.head.logits(features), expected, rtol=1e-4, atol=1e-4)
    assert model.preprocessing.size == (2, 2)


@pytest.mark.parametrize("pool_first", [True, False])
def test_one_by_one_convolutions(pool_first: bool, tmp_path: Path) -> None:
    weight = RNG.normal(size=(C, 3)).astype(np.float32)
    pool, conv = (lambda a, b: node("GlobalAveragePool", a, b)), (lambda a, b: node("Conv", f"{a} w k", b, kernel_shape=[1, 1]))
    order = [pool("x", "p"), conv("p", "q")] if pool_first else [conv("x", "p"), pool("p", "q")]
    path = graph(tmp_path / "m.onnx", *order, node("Flatten", "q", "y"), start=[], w=weight[:, :, None, None], k=BIAS)
    features, logits = open_model(path)(IMAGES)
    np.testing.assert_allclose(features, IMAGES.mean((2, 3)), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(logits, IMAGES.mean((2, 3)) @ weight.T + BIAS, rtol=1e-4, atol=1e-5)


def test_channels_last_as_tensorflow_has_them(tmp_path: Path) -> None:
    path = graph(tmp_path / "m.onnx", node("MatMul", "f w", "y"), shape=(4, 5, 3), w=RNG.normal(size=(60, C)).astype(np.float32))
    model = open_model(path)
    batch = RNG.normal(size=(2, 3, 4, 5)).astype(np.float32)
    assert model.preprocessing.size == (4, 5)
    np.testing.assert_allclose(model(batch)[0], np.maximum(batch.transpose(0, 2, 3, 1).reshape(2, -1), 0))


@pytest.mark.parametrize("fixed", [1, 2, 5, 8])
def test_a_fixed_batch_size_runs_in_pieces(fixed: int, tmp_path: Path) -> None:
    nodes, arrays, expected = GRAPHS["Gemm"]
    features, logits = open_model(graph(tmp_path / "m.onnx", *nodes, batch=fixed, **arrays))(IMAGES)
    np.testing.assert_allclose(features, FLAT)
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)


def test_a_linear_model_has_its_images_as_features(tmp_path: Path) -> None:
    path = graph(tmp_path / "m.onnx", node("MatMul", "x w", "y"), start=[], shape=(D,), w=WEIGHT.T.copy())
    features, _ = open_model(path)(IMAGES)
    np.testing.assert_array_equal(features, IMAGES.transpose(0, 2, 3, 1).reshape(5, D))


def test_logits_and_probabilities_as_two_outputs(tmp_path: Path) -> None:
    nodes = [node("Gemm", "f w", "g", transB=1), node("Softmax", "g", "p", axis=1)]
    _, logits = open_model(graph(tmp_path / "m.onnx", *nodes, outputs="p g", w=WEIGHT))(IMAGES)
    np.testing.assert_allclose(logits, FLAT @ WEIGHT.T, rtol=1e-4, atol=1e-5)


def test_initializers_repeated_among_the_inputs(tmp_path: Path) -> None:
    """Graphs of IR version 3, as CNTK and WinML write them."""
    path = graph(tmp_path / "m.onnx", node("Gemm", "f w k", "y", transB=1), w=WEIGHT, k=BIAS)
    proto = onnx.load(path)
    proto.ir_version = 3
    proto.opset_import[0].version = 8
    for tensor in proto.graph.initializer:
        proto.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    onnx.save(proto, path)
    model = open_model(path)
    features, logits = model(IMAGES)
    np.testing.assert_allclose(features, FLAT, rtol=1e-6)
    np.testing.assert_allclose(logits, FLAT @ WEIGHT.T + BIAS, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(model.head.weight, WEIGHT, rtol=1e-6)


@pytest.mark.parametrize("bias", [50.0, 0.0])
def test_a_relu_between_convolution_and_pool(bias: float, tmp_path: Path) -> None:
    """The head of a SqueezeNet: linear where the ReLU cuts nothing off."""
    weight = RNG.normal(size=(C, 3)).astype(np.float32)
    nodes = [node("Conv", "x w k", "c", kernel_shape=[1, 1]), node("Relu", "c", "r"), node("GlobalAveragePool", "r", "p")]
    arrays: dict[str, Any] = {"w": weight[:, :, None, None], "k": np.full(C, bias, np.float32)}
    model = open_model(graph(tmp_path / "m.onnx", *nodes, node("Flatten", "p", "y"), start=[], **arrays))
    if bias:
        np.testing.assert_allclose(model(IMAGES)[1], IMAGES.mean((2, 3)) @ weight.T + bias, rtol=1e-4)
    else:
        with pytest.raises(InputError, match="does not reproduce its output.*pass --head-layer Conv_c --fit-head"):
            model.check(IMAGES)


def test_one_of_several_heads_is_chosen(tmp_path: Path) -> None:
    nodes = [node("Gemm", "f w", "one", transB=1), node("Gemm", "f v", "two", transB=1)]
    path = graph(tmp_path / "m.onnx", *nodes, outputs="one two", w=WEIGHT, v=WEIGHT[:3])
    for name in ("Gemm_two", "two"):
        assert open_model(path, head=name)(IMAGES)[1].shape == (5, 3)
    wrong: list[tuple[Any, str]] = [({}, "Choose with --head-layer NAME"), ({"head": "three"}, "'three'. .*Gemm_one, Gemm_two")]
    for options, message in wrong:
        with pytest.raises(InputError, match=message):
            open_model(path, **options)


def test_a_head_that_is_not_linear_must_be_chosen(tmp_path: Path) -> None:
    path = graph(tmp_path / "m.onnx", node("Gemm", "f w", "g", transB=1), node("Tanh", "g", "y"), w=WEIGHT)
    model = open_model(path, head="Gemm_g")
    with pytest.warns(UserWarning, match="those of the layer"):
        _, logits = model(IMAGES)
    np.testing.assert_allclose(logits, FLAT @ WEIGHT.T, rtol=1e-4, atol=1e-5)


INTEGERS = {"w": (10 * WEIGHT.T).astype(np.int8), "s": np.float32(0.1), "z": np.int8(0), "k": BIAS}
REFUSED: dict[str, tuple[list[Any], dict[str, Any], str]] = {
    "dequantized weight": (
        [node("DequantizeLinear", "w s z", "d"), node("Gemm", "f d", "y")], INTEGERS, "quantized.*export the float model",
    ),
    "MatMulInteger": (
        [helper.make_node("DynamicQuantizeLinear", ["f"], ["q", "qs", "qz"], name="quant"),
         node("MatMulInteger", "q w qz", "i"), node("Cast", "i", "c", to=1), node("Mul", "qs s", "t"), node("Mul", "c t", "m"),
         node("Add", "m k", "y")], INTEGERS, "quantized.*export the float model",
    ),
    "QLinearMatMul": (
        [node("QuantizeLinear", "f s z", "q"), node("QLinearMatMul", "q s z w s z s z", "i"),
         node("DequantizeLinear", "i s z", "y")], INTEGERS, "quantized.*export the float model",
    ),
    "not linear": (
        [node("Gemm", "f w", "g", transB=1), node("Tanh", "g", "y")], {"w": WEIGHT},
        r"goes through Tanh_y \(Tanh\), which is not linear.*--head-layer NAME.*Gemm_g.*--fit-head",
    ),
    "a layer added to what is none": (
        [node("Gemm", "f w", "one", transB=1), node("Tanh", "one", "two"), node("Add", "one two", "y")], {"w": WEIGHT},
        r"Add_y \(Add\), which is not linear",
    ),
    "a weight that depends on the images": (
        [node("Transpose", "f", "t", perm=[1, 0]), node("MatMul", "f t", "y")], {}, "not a constant weight",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_no_linear_head_is_refused(kind: str, tmp_path: Path) -> None:
    nodes, arrays, message = REFUSED[kind]
    with pytest.raises(InputError, match=message):
        open_model(graph(tmp_path / "m.onnx", *nodes, **arrays))


def test_broken_files(tmp_path: Path) -> None:
    nodes, arrays, _ = GRAPHS["Gemm"]
    graph(tmp_path / "m.onnx", *nodes, **arrays)
    (tmp_path / "page.onnx").write_bytes(b"<html>")
    for name, options, message in (
        ("page.onnx", {}, "cannot be read as ONNX|cannot be run"),
        ("absent.onnx", {}, "there is no file"),
        ("m.onnx", {"weights": "w.pt"}, "weights does not apply to m.onnx"),
        ("m.onnx", {}, r"could not run on images of shape \(3, 9, 9\)"),
    ):
        with pytest.raises(HardsightError, match=message):
            open_model(tmp_path / name, **options).check(np.zeros((2, 3, 9, 9), np.float32))  # type: ignore[arg-type]


def exported(module: Any, images: np.ndarray, path: Path, external: bool) -> Path:
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript", reason="torch needs onnxscript to export")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        batch = torch.export.Dim("b", min=2, max=64)
        options = {"dynamo": True, "dynamic_shapes": ({0: batch},), "external_data": external, "verbose": False}
        torch.onnx.export(module.eval(), (torch.from_numpy(images),), path, **options)
    return path


@pytest.mark.filterwarnings("ignore")
def test_a_torch_model_and_its_export_agree(tmp_path: Path) -> None:
    """With the weights in a file beside the graph, and inside it."""
    torch = pytest.importorskip("torch")
    from hardsight.models.networks import CifarResNet

    torch.manual_seed(0)
    module = CifarResNet(1)
    images = RNG.normal(size=(6, 3, 32, 32)).astype(np.float32)
    beside, inside = exported(module, images, tmp_path / "beside.onnx", external=True), tmp_path / "inside.onnx"
    assert (tmp_path / "beside.onnx.data").exists()
    onnx.save(onnx.load(beside), inside)  # exporting takes seconds
    (tmp_path / "beside.onnx.data").rename(tmp_path / "moved.data")
    ours, from_inside = open_model(module), open_model(inside)
    (tmp_path / "moved.data").rename(tmp_path / "beside.onnx.data")
    for theirs in (open_model(beside), from_inside):
        for a, b in zip(ours(images), theirs(images), strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-4 * np.abs(a).max())
        np.testing.assert_allclose(theirs.head.weight, ours.head.weight, rtol=1e-5, atol=1e-6)
        assert theirs.fingerprint()["kind"] == "onnx" and theirs.preprocessing.size == (32, 32)


@pytest.mark.filterwarnings("ignore")
def test_a_cosine_head_is_exported_as_a_formula(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from test_models_heads import IMAGES as images
    from test_models_heads import Formula

    torch.manual_seed(0)
    module = Formula()
    features, logits = open_model(exported(module, images, tmp_path / "m.onnx", external=False))(images)
    with torch.no_grad():
        np.testing.assert_allclose(logits, module(torch.from_numpy(images)), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), np.linalg.norm(features[0]), rtol=1e-4)
