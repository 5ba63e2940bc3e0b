"""The last linear layer of an ONNX graph: walk back from an output until a Gemm, MatMul or 1x1 Conv.

On the way only steps that keep the layer linear are passed: reshaping, pooling, adding or multiplying constants, a
softmax at the end, and a ReLU, which changes nothing where all it sees is positive. Anything else, and anything
quantized, is said by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hardsight.errors import InputError

LAYERS = ("Gemm", "MatMul", "Conv")
RESHAPING = {"Identity", "Flatten", "Reshape", "Squeeze", "Unsqueeze", "Cast", "Dropout", "Softmax", "LogSoftmax"}
POOLING = {"GlobalAveragePool", "AveragePool", "ReduceMean", "Gather", "Slice"}
CHECKED = POOLING | {"Relu"}  # the check on the first images tells if they may be passed
ARITHMETIC = ("Add", "Sub", "Mul", "Div")
QUANTIZED = {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "ConvInteger", "QGemm"}
QUANTIZED |= {"MatMulNBits", "DynamicQuantizeMatMul", "MatMulIntegerToFloat"}  # onnxruntime's own


@dataclass(frozen=True)
class GraphLayer:
    """The last linear layer and the steps after it, by the names of tensors in the graph."""

    node: Any
    output: str | None  # the graph output it leads to; None if it was chosen although something follows it
    steps: tuple[tuple[str, str], ...] = ()  # (Add, constant), ... in the order of the graph

    @property
    def name(self) -> str:
        """What --head-layer calls it."""
        return _label(self.node)

    @property
    def features(self) -> str:
        """The tensor that holds the features: the layer's input."""
        return str(self.node.input[0])

    @property
    def channels_first(self) -> bool:
        """Whether the layer is a convolution, so that channels come before positions."""
        return bool(self.node.op_type == "Conv")

    @property
    def constants(self) -> list[str]:
        """Tensors that do not depend on the images: weight, bias, and those of the steps."""
        return list(dict.fromkeys([*filter(None, self.node.input[1:3]), *(name for _, name in self.steps)]))

    def fold(self, values: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """(c, d) weight and (c,) bias of the layer together with the steps after it."""
        attributes = {a.name: a for a in self.node.attribute}
        weight = values[self.node.input[1]].astype(np.float64)
        scale = 1.0
        if self.node.op_type == "Conv":
            weight = weight.reshape(weight.shape[:2])  # (c, d, 1, 1)
        elif self.node.op_type == "MatMul" or not attributes.get("transB") or not attributes["transB"].i:
            weight = weight.T  # stored as (d, c)
        bias = np.zeros(len(weight))
        if len(self.node.input) > 2 and self.node.input[2]:
            bias = bias + self._per_class(values[self.node.input[2]], len(weight))
        if self.node.op_type == "Gemm":
            scale = attributes["alpha"].f if "alpha" in attributes else 1.0
            bias = bias * (attributes["beta"].f if "beta" in attributes else 1.0)
        weight = weight * scale
        for operation, name in self.steps:
            k = self._per_class(values[name], len(weight))  # (c,)
            if operation in ("Add", "Sub"):
                bias = bias + k if operation == "Add" else bias - k
            else:
                k = k if operation == "Mul" else 1 / k
                weight, bias = weight * k[:, None], bias * k
        return weight.astype(np.float32), bias.astype(np.float32)

    def _per_class(self, value: np.ndarray, num_classes: int) -> np.ndarray:
        if value.size not in (1, num_classes):
            raise InputError(f"a constant of shape {value.shape} after {self.name} is not one value per class ({num_classes}).")
        return np.broadcast_to(value.astype(np.float64).reshape(-1), (num_classes,))


class Graph:
    """An ONNX graph that can be walked from its outputs to its inputs."""

    def __init__(self, graph: Any) -> None:
        self.nodes = list(graph.node)
        self.outputs = [output.name for output in graph.output]
        self._producer = {name: node for node in self.nodes for name in node.output}
        self._constant = {tensor.name: True for tensor in graph.initializer}
        for node in self.nodes:  # in topological order: a node of constants makes constants
            constant = all(self._constant.get(name, name == "") for name in node.input)
            self._constant.update(dict.fromkeys(node.output, constant))

    def last_layer(self, choice: str | None = None) -> GraphLayer:
        """The one layer that an output of the graph comes from, or the one that was chosen by name."""
        layers: dict[str, GraphLayer] = {}
        reasons = []
        for output in self.outputs:
            try:
                layer = self._walk(output)
            except InputError as error:
                reasons.append(str(error))
                continue
            if layer.name not in layers or self._producer[output].op_type not in ("Softmax", "LogSoftmax"):
                layers[layer.name] = layer
        if choice is not None:
            return self._chosen(choice, layers)
        if len(layers) == 1:
            return next(iter(layers.values()))
        if layers:
            raise InputError(
                f"several layers lead to an output of the graph: {', '.join(layers)}. Choose with --head-layer NAME."
            )
        raise InputError(f"no linear layer gives an output of the graph. {' '.join(reasons)} {self._candidates()}".strip())

    def _walk(self, output: str) -> GraphLayer:
        """The linear layer that an output comes from, with the steps that follow."""
        name = output
        steps: list[tuple[str, str]] = []  # from the output to the layer
        while True:
            node = self._producer.get(name)
            if node is None:
                raise InputError(f"Output {output} is not computed by any layer.")
            if node.op_type in LAYERS:
                reason = self._not_linear(node)
                if reason:
                    raise InputError(f"Output {output} comes from {_label(node)}, {reason}.")
                return GraphLayer(node, output, tuple(reversed(steps)))
            if node.op_type in RESHAPING | CHECKED:
                name = node.input[0]
            elif node.op_type in ARITHMETIC and self._constant.get(node.input[1]):
                steps.append((node.op_type, node.input[1]))
                name = node.input[0]
            elif node.op_type in ("Add", "Mul") and self._constant.get(node.input[0]):
                steps.append((node.op_type, node.input[0]))
                name = node.input[1]
            elif self._quantized_near(name):
                raise InputError(
                    f"Output {output} comes from a quantized layer ({node.op_type}): export the float model instead."
                )
            else:
                raise InputError(f"Output {output} goes through {_label(node)} ({node.op_type}), which is not linear.")

    def _not_linear(self, node: Any) -> str | None:
        """Why a Gemm, MatMul or Conv is not a linear layer of class vectors; None if it is one."""
        attributes = {a.name: a for a in node.attribute}
        if self._quantized_near(node.input[1]):
            return "whose weight is quantized: export the float model instead"
        if not self._constant.get(node.input[1]):
            return f"a {node.op_type} whose second input is not a constant weight"
        if node.op_type == "Gemm" and "transA" in attributes and attributes["transA"].i:
            return "a Gemm of transposed features (transA)"
        if node.op_type == "Conv":
            kernel = list(attributes["kernel_shape"].ints) if "kernel_shape" in attributes else []
            if set(kernel) != {1} or ("group" in attributes and attributes["group"].i != 1):
                return f"a convolution of kernel {kernel}, not a 1x1 one"
        return None

    def _quantized_near(self, name: str, depth: int = 4) -> bool:
        node = self._producer.get(name)
        if node is None or depth == 0:
            return False
        if node.op_type in QUANTIZED or node.op_type.startswith("QLinear"):
            return True
        return any(self._quantized_near(x, depth - 1) for x in node.input)

    def _chosen(self, choice: str, layers: dict[str, GraphLayer]) -> GraphLayer:
        if choice in layers:
            return layers[choice]
        node = next((n for n in self.nodes if n.op_type in LAYERS and choice in (n.name, *n.output)), None)
        if node is None:
            raise InputError(f"the graph has no Gemm, MatMul or Conv named {choice!r}. {self._candidates()}".strip())
        reason = self._not_linear(node)
        if reason:
            raise InputError(
                f"{choice} is {reason.removeprefix('a ')}." if reason.startswith("a ") else f"{choice} is a layer {reason}."
            )
        return layers.get(_label(node), GraphLayer(node, None))

    def _candidates(self) -> str:
        """The last few layers, to choose from."""
        layers = [_label(node) for node in self.nodes if node.op_type in LAYERS and self._not_linear(node) is None]
        if not layers:
            return ""
        return (
            f"Choose a layer with --head-layer NAME; the last ones are {', '.join(layers[-5:])}. "
            "Add --fit-head to have score fit a head to what goes into it."
        )


def _label(node: Any) -> str:
    return str(node.name or node.output[0])
