"""The network that train, adapt and generalize train: cut before its last layer, to be followed by a head of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from hardsight.dynamics.gathering import num_processes
from hardsight.errors import FileError
from hardsight.head import Head
from hardsight.models.head_layer import HeadLayer, HiddenLayer, shape_of
from hardsight.models.network import state_sha256
from hardsight.models.preprocessing import Preprocessing
from hardsight.models.trainable import Trainable, cut_off, open_trainable
from hardsight.training import processes
from hardsight.training.inputs import ImageInputs, Inputs, even_batches
from hardsight.training.settings import NetworkOptions

FOUND_BY = 16  # samples to find the last layer with
FORWARD = 512  # samples per batch without gradients
FORWARD_NUMBERS = 2**16  # input numbers per batch without gradients, unless a training batch has more
VIEWS = 5  # of a picture; each is mirrored, too
OF_CROPS = "_10_crops"  # end of a metric's name


@dataclass
class TrainedNetwork:
    """A network from inputs to logits, ready to be written.

    Attributes:
        state: its tensors by name.
        config: what model/config.json says.
        head: what it predicts with.
    """

    state: dict[str, Tensor]
    config: dict[str, Any]
    head: Head


class CutNetwork(nn.Module):
    """Inputs in, features out; subclasses add heads and losses.

    Args:
        source: the network, whose last layer is taken out; its module becomes part of this one.
        sample: (b, ...) a few inputs, to find that layer by.

    Attributes:
        heads: names of the submodules that hold class vectors and other parameters of a loss.
        last_head: what the network predicted with before it was cut.
        freeze_statistics: keep the running statistics of batch normalization, and normalize by them in training too.
        autocast: the type of the network's forward pass, if it is a shorter one; features are float32 all the same.
    """

    heads: tuple[str, ...] = ()
    freeze_statistics: bool = False
    autocast: torch.dtype | None = None

    def __init__(self, source: Trainable, sample: Tensor) -> None:
        super().__init__()
        self.source, self.network = source, source.module
        last, self.cut, _ = cut_off(self.network, sample)
        self.layer, self.last_head, self.hidden = last.taps[0].layer, last.head, source.hidden
        if source.head_hidden is not None:
            self.hidden = HiddenLayer(self.layer, last.head.num_features, source.head_hidden)
            self.hidden.put_into(self.network).head = self.cut  # features are taken after its ReLU
            self.layer = f"{self.layer}.head"

    @property
    def num_features(self) -> int:
        """d, the length of a feature."""
        return self.last_head.num_features if self.source.head_hidden is None else self.source.head_hidden

    @property
    def batch_norm(self) -> bool:
        """Whether the samples of a batch are normalized by each other in training."""
        layers = any(isinstance(layer, nn.modules.batchnorm._BatchNorm) for layer in self.network.modules())
        return layers and not self.freeze_statistics

    def in_head(self, name: str) -> bool:
        """Whether a parameter is one of the head: of class vectors, of a loss, or of the hidden layer before them."""
        hidden = () if self.hidden is None else (f"network.{self.hidden.layer}.",)
        return name.split(".")[0] in self.heads or name.startswith(hidden)

    def train(self, mode: bool = True) -> Self:
        """Training mode, in which frozen batch normalization stays as in use; or evaluation mode, alike in all processes."""
        super().train(mode)
        if not mode:
            processes.same_buffers(self)
        if self.freeze_statistics:
            for layer in self.modules():
                if isinstance(layer, nn.modules.batchnorm._BatchNorm):
                    layer.eval()
        return self

    def features(self, inputs: Tensor) -> Tensor:
        """(b, ...) inputs -> (b, d) features."""
        if self.autocast is None:
            self.network(inputs)
        else:
            with torch.autocast(inputs.device.type, self.autocast):
                self.network(inputs)
        features, self.cut.features = self.cut.features, None
        assert features is not None
        return features if self.autocast is None else features.float()

    def with_head(self, head: Head, preprocessing: Preprocessing | None, class_names: Sequence[str] | None) -> TrainedNetwork:
        """The whole network again, with a head in the place of its last layer."""
        state = dict(self.network.state_dict())
        state |= {f"{self.layer}.{name}": x for name, x in HeadLayer.of(head).state_dict().items()}
        config: dict[str, Any] = {"factory": self.source.factory, "arguments": self.source.arguments}
        config["head"] = {"layer": self.layer, **shape_of(head)}
        if self.hidden is not None:
            config["hidden"] = asdict(self.hidden)
        if preprocessing is not None:
            config["preprocessing"] = preprocessing.as_dict()
        if class_names is not None:
            config["class_names"] = list(class_names)
        return TrainedNetwork(state, config, head)


def open_network(model: Any, num_classes: int, settings: NetworkOptions) -> Trainable:
    """The network that a MODEL names, as the options have it."""
    s = settings
    return open_trainable(
        model, num_classes, options=dict(s.model_options), weights=s.weights, pretrained=s.pretrained, head_hidden=s.head_hidden
    )


def start_fingerprint(make: Callable[[], Trainable]) -> str:
    """Of the weights that a network starts from, drawn from seed 0 where they are random."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return state_sha256(make().module)


def first_sample(inputs: Inputs, rows: np.ndarray | None = None) -> Tensor:
    """(b, ...) a few inputs, by default the first ones, to find a network's last layer by."""
    rows = np.arange(min(FOUND_BY, len(inputs))) if rows is None else rows
    batch = next(iter(inputs.batches([rows])))
    if not len(batch.rows):
        raise FileError(f"none of the first {FOUND_BY} samples can be read.")
    return torch.from_numpy(batch.inputs)


def forward_size(batch_size: int, sample: Tensor) -> int:
    """Batch size without gradients: that of a training batch, or larger for small samples.

    Example:
        >>> [forward_size(32, torch.zeros(1, 1, side, side)) for side in (8, 28, 224)]
        [512, 83, 32]
    """
    return max(batch_size, min(FORWARD, FORWARD_NUMBERS // sample[0].numel()))


def as_tensor(values: np.ndarray, device: torch.device) -> Tensor:
    """An array on a device."""
    return torch.from_numpy(np.ascontiguousarray(values)).to(device)


@torch.no_grad()
def forward_pass(
    function: Callable[[Tensor], Tensor], inputs: Inputs, rows: Sequence[np.ndarray], device: torch.device, share: bool = True
) -> Iterator[tuple[np.ndarray, Tensor]]:
    """(b,) rows of the samples that could be read and what a function of their inputs gives, batch by batch, no gradients.

    Args:
        function: (b, ...) -> (b, d).
        share: where there are several processes, each computes a part of each batch, and all get the whole; else each
            computes all rows that it is given.
    """
    several = share and num_processes() > 1
    for batch in inputs.batches(processes.shares(rows) if several else rows):
        values = function(as_tensor(batch.inputs, device)) if len(batch.rows) else None
        if several:
            every, whole = processes.rows_of_all(batch.rows, values, device)
            if len(every):
                yield every, whole
        elif values is not None:
            yield batch.rows, values


def all_features(
    network: CutNetwork, inputs: Inputs, device: torch.device, rows: np.ndarray | None = None, mirrored: bool = False
) -> np.ndarray:
    """(n, d) features of every sample by a network in evaluation mode; NaN where a sample cannot be read.

    Args:
        rows: (r,) in rising order: of these samples alone, (r, d).
        mirrored: of the mirror images instead.
    """
    network.eval()
    rows = np.arange(len(inputs)) if rows is None else rows
    features = np.full((len(rows), network.num_features), np.nan, np.float32)
    function = (lambda images: network.features(images.flip(-1))) if mirrored else network.features
    for some, values in forward_pass(function, inputs, even_batches(rows, FORWARD), device):
        features[np.searchsorted(rows, some)] = values.float().cpu().numpy()
    return features


def hits(logits: Tensor, labels: np.ndarray, k: int = 1) -> int:
    """How many samples have their class among the k highest of their (b, c) logits; unlabeled ones (-1) have none."""
    best = logits.topk(min(k, logits.shape[1]), dim=1).indices  # (b, k)
    return int((best == torch.as_tensor(labels, device=logits.device)[:, None]).any(1).sum())


def counts_of(top_k: int | None, crops: int) -> dict[str, float]:
    """The further metrics that are counted, by name, each at 0.

    Example:
        >>> list(counts_of(5, crops=10)), counts_of(None, crops=1)
        (['top5', 'accuracy_10_crops', 'top5_10_crops'], {})
    """
    top = [] if top_k is None else [f"top{top_k}"]
    of_crops = [f"{name}{OF_CROPS}" for name in ("accuracy", *top)] if crops > 1 else []
    return dict.fromkeys([*top, *of_crops], 0.0)


@torch.no_grad()
def ten_crop_logits(
    logits_of: Callable[[Tensor], Tensor], inputs: ImageInputs, rows: Sequence[np.ndarray], device: torch.device
) -> Iterator[tuple[np.ndarray, Tensor]]:
    """(b,) rows and their (b, c) mean logits, batch by batch.

    Ten crops are the four corners and the center of the resized picture, and their mirror images (Krizhevsky et al.,
    NIPS 2012, average probabilities).
    """
    for batch in inputs.batches(rows, lambda row, picture: inputs.preprocessing.five_crops(picture)):
        if len(batch.rows):
            views = as_tensor(batch.inputs, device)  # (5 b, C, H, W)
            logits = logits_of(torch.cat([views, views.flip(3)]))  # (10 b, c)
            yield batch.rows, logits.reshape(2, len(batch.rows), VIEWS, -1).mean((0, 2))
