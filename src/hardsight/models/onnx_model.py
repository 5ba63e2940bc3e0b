"""An ONNX file as a `Model`: the input of its last linear layer is made one more output, and onnxruntime runs it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from hardsight.errors import FileError, InputError, require
from hardsight.head import Head
from hardsight.models.matching import READINGS, Matrix, best_match, read_positions, way_forward
from hardsight.models.model import Model
from hardsight.models.onnx_graph import Graph, GraphLayer
from hardsight.models.preprocessing import Preprocessing, flat_images, flat_preprocessing
from hardsight.models.weights import file_sha256

DTYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}


class OnnxModel(Model):
    """A classifier in an ONNX file.

    The file says the size of its input but not its colors: pixels are given as 0..1 unless the preprocessing is changed.

    Args:
        path: the .onnx file; weights kept beside it are found there.
        node: the last linear layer by node or tensor name, where it cannot be found automatically.
        device: "cpu"; "auto" and "cuda" use CUDA where this onnxruntime has it.
    """

    def __init__(self, path: Path, *, node: str | None = None, device: str = "auto") -> None:
        onnx = require("onnx", extra="onnx", purpose=path.name)
        runtime = require("onnxruntime", extra="onnx", purpose=path.name)
        try:
            proto = onnx.load(path, load_external_data=False)
        except Exception as error:  # protobuf's own error classes
            raise FileError(f"{path} cannot be read as ONNX: {error}") from error
        _drop_constant_inputs(proto)
        beside = {entry.value for t in proto.graph.initializer for entry in t.external_data if entry.key == "location"}
        self._files = [path, *(path.parent / name for name in sorted(beside))]
        self._chosen = node is not None
        self.layer: GraphLayer = Graph(proto.graph).last_layer(node)
        _expose(onnx, proto, [self.layer.features, *self.layer.constants])
        self._session = _session(runtime, proto, path, device)
        self._input = _single_input(self._session, path)
        self._reading: str = READINGS[0]
        self._softmaxed = self.layer.output is None
        super().__init__(path.name, self._declared_preprocessing())
        self._check_every_batch = node is None

    def fingerprint(self) -> dict[str, str]:
        """Kind, name and the hash of the file."""
        return {"kind": "onnx", "name": self.name, "sha256": file_sha256(*self._files)}

    def _find_head(self, batch: np.ndarray) -> Head:
        try:
            features, output, *constants = self._fetch(batch, self.layer.constants)
        except InputError:
            raise
        except Exception as error:  # onnxruntime's own error classes
            raise InputError(f"{self.name} could not run on images of shape {batch.shape[1:]}: {error}") from error
        weight, bias = self.layer.fold(dict(zip(self.layer.constants, constants, strict=True)))
        if output is None:
            self._warn("something follows it")
            return Head("linear", weight, bias)
        nearest = np.inf
        for reading in READINGS:
            rows = self._features(features, reading)
            if rows.shape != (len(batch), weight.shape[1]) or output.shape != (len(batch), len(weight)):
                continue
            match = best_match(rows, output, Matrix(weight, bias))
            if match.holds:
                self._reading, self._softmaxed = reading, match.softmaxed
                return match.build()
            nearest = min(nearest, match.error)
        off = f"off by {nearest:.0%} of the largest output" if np.isfinite(nearest) else f"its output is {output.shape}"
        if not self._chosen:
            raise InputError(
                f"the layer {self.layer.name} {weight.shape} of {self.name} does not reproduce its output ({off}). "
                f"{way_forward(self.layer.name)}"
            )
        self._warn(off)
        self._softmaxed = True
        return Head("linear", weight, bias)

    def _run(self, batch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        features, output, *_ = self._fetch(batch, [])
        rows = self._features(features, self._reading)
        if self._softmaxed or output is None:
            return rows, np.asarray(self.head.logits(rows), np.float32)
        return rows, output

    def _fetch(self, batch: np.ndarray, constants: list[str]) -> list[Any]:
        """The layer's input, the (b, c) output if there is one, and constants; a graph of fixed batch size runs in pieces."""
        names = [name for name in (self.layer.features, self.layer.output) if name and name != self._input.name]
        images = self._as_input(batch)
        fixed = self._input.shape[0] if self._input.shape and isinstance(self._input.shape[0], int) else len(images)
        parts = []
        for start in range(0, len(images), fixed):
            piece = images[start : start + fixed]
            filled = np.concatenate([piece, np.repeat(piece[-1:], fixed - len(piece), axis=0)])
            parts.append(self._session.run([*names, *constants], {self._input.name: filled}))
        fetched = {name: np.concatenate([part[k] for part in parts])[: len(images)] for k, name in enumerate(names)}
        features = fetched.get(self.layer.features, images)  # one layer has images as features
        output = None if self.layer.output is None else fetched[self.layer.output].astype(np.float32)
        if output is not None and output.size == len(output) * output.shape[1]:
            output = output.reshape(len(output), -1)  # (b, c, 1, 1) is (b, c)
        return [features, output, *parts[0][len(names) :]]

    def _as_input(self, batch: np.ndarray) -> np.ndarray:
        dtype = DTYPES.get(self._input.type)
        if dtype is None:
            raise InputError(f"{self.name} takes {self._input.type} images; export it to take floating-point ones.")
        if len(self._input.shape) == 2:
            batch = flat_images(batch)
        elif self._channels_last():
            batch = batch.transpose(0, 2, 3, 1)
        return np.ascontiguousarray(batch, dtype)

    def _channels_last(self) -> bool:
        shape = self._input.shape
        return len(shape) == 4 and shape[1] not in (1, 3) and shape[3] in (1, 3)

    def _features(self, x: np.ndarray, reading: str) -> np.ndarray:
        """(b, d) what goes into the layer."""
        rows = read_positions(x.astype(np.float32), reading, self.layer.channels_first)
        return np.ascontiguousarray(rows.reshape(len(x), -1))

    def _declared_preprocessing(self) -> Preprocessing:
        shape = self._input.shape
        if len(shape) != 4:
            return flat_preprocessing(shape[1] if len(shape) == 2 and isinstance(shape[1], int) else None)
        channels, height, width = (shape[3], shape[1], shape[2]) if self._channels_last() else shape[1:]
        fixed = isinstance(height, int) and isinstance(width, int)
        return Preprocessing(size=(height, width) if fixed else None, channels="L" if channels == 1 else "RGB")

    def _warn(self, why: str) -> None:
        warnings.warn(
            f"the output of {self.name} is not that of its layer {self.layer.name} ({why}): "
            "features, logits and scores are those of the layer.",
            stacklevel=2,
        )


def _drop_constant_inputs(proto: Any) -> None:
    """Initializers are constants, also where they are repeated among the inputs, as IR version 3 asked for."""
    constants = {tensor.name for tensor in proto.graph.initializer}
    images = [value for value in proto.graph.input if value.name not in constants]
    del proto.graph.input[:]
    proto.graph.input.extend(images)
    proto.ir_version = max(proto.ir_version, 4)  # from which on they need not be repeated


def _expose(onnx: Any, proto: Any, names: list[str]) -> None:
    """Make tensors outputs of the graph; they are computed only when requested."""
    there = {value.name for value in (*proto.graph.output, *proto.graph.input)}
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in dict.fromkeys(names) if name not in there)


def _session(runtime: Any, proto: Any, path: Path, device: str) -> Any:
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(path.parent.resolve()))
    available = runtime.get_available_providers()
    if device.startswith("cuda") and "CUDAExecutionProvider" not in available:
        raise InputError("this onnxruntime has no CUDA: install onnxruntime-gpu, or pass --device cpu.")
    providers = ["CPUExecutionProvider"]
    if device != "cpu" and "CUDAExecutionProvider" in available:
        providers.insert(0, "CUDAExecutionProvider")
    try:
        return runtime.InferenceSession(proto.SerializeToString(), options, providers=providers)
    except Exception as error:  # onnxruntime's own error classes
        raise FileError(f"{path} cannot be run by onnxruntime: {error}") from error


def _single_input(session: Any, path: Path) -> Any:
    inputs = session.get_inputs()
    if len(inputs) != 1:
        raise InputError(f"{path} must take one input, the images, but takes {', '.join(x.name for x in inputs) or 'none'}.")
    return inputs[0]
