"""Pictures as models get them: by hand, and against the transforms of the libraries the settings come from."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from libraries import library
from PIL import Image

from hardsight.data import open_data
from hardsight.errors import InputError
from hardsight.models import Preprocessing

PICTURE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (60, 90, 3), np.uint8)).resize((301, 200))


def test_scaled_to_one_and_standardized_by_hand() -> None:
    array = Preprocessing()(Image.new("RGB", (3, 2), (0, 51, 255)))
    assert array.shape == (3, 2, 3) and array.dtype == np.float32
    np.testing.assert_allclose(array[:, 0, 0], [0.0, 0.2, 1.0], rtol=1e-6)
    np.testing.assert_array_equal(Preprocessing(channels="BGR")(PICTURE), Preprocessing()(PICTURE)[::-1])
    half = Preprocessing(mean=(0.5, 0.5, 0.5), std=(0.5, 0.25, 0.125), size=(1, 1))
    np.testing.assert_allclose(half(Image.new("RGB", (4, 4), "white")).ravel(), [1.0, 2.0, 4.0], rtol=1e-6)
    with pytest.raises(InputError, match="more than 8 bits"):
        half(Image.new("I;16", (2, 2)))


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGBA", "CMYK", "YCbCr", "LA"])
@pytest.mark.parametrize("channels", ["RGB", "L", "BGR"])
def test_every_eight_bit_mode(mode: str, channels: Any) -> None:
    picture = Image.new("RGB", (5, 4), "white").convert(mode)
    array = Preprocessing(channels=channels, size=(2, 2))(picture)
    assert array.shape == (len(channels), 2, 2)
    np.testing.assert_allclose(array, 1.0, atol=0.02)


def test_the_whole_picture_fits_with_a_border_of_the_mean() -> None:
    framed = Preprocessing(size=(8, 8), resize="longest", mean=(0.5, 0.5, 0.5))
    array = framed(Image.new("RGB", (16, 8), "white"))  # becomes 8 x 4 in the middle
    np.testing.assert_allclose(array[:, 2:6], 0.5, atol=0.01)
    np.testing.assert_allclose(array[:, [0, 1, 6, 7]], 0.0, atol=0.01)


@pytest.mark.parametrize("size", [(10, 10), (10, 30), (30, 10)])
@pytest.mark.parametrize("shape", [(1, 1), (1, 400), (400, 1), (31, 17)])
@pytest.mark.parametrize("resize", ["shortest", "squash", "longest"])
def test_any_picture_becomes_the_size(size: tuple[int, int], shape: tuple[int, int], resize: Any) -> None:
    assert Preprocessing(size=size, resize=resize, crop_pct=0.9)(Image.new("RGB", shape)).shape == (3, *size)


def test_settings_survive_json_and_replace() -> None:
    settings = Preprocessing(size=(32, 48), mean=(0.1,), std=(0.3,), channels="L", interpolation="bicubic")
    assert Preprocessing.from_dict(json.loads(json.dumps(settings.as_dict()))) == settings
    assert dataclasses.replace(settings, size=(8, 8)).size == (8, 8)
    assert dataclasses.replace(Preprocessing(), channels="L").mean == (0.0,)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"size": (0, 3)}, "size must be"),
        ({"resize": "stretch"}, "resize must be one of"),
        ({"interpolation": "cubic"}, "interpolation must be one of"),
        ({"channels": "RGBA"}, "channels must be one of"),
        ({"crop_pct": 1.5}, "crop_pct must be"),
        ({"mean": (0.1, 0.2)}, "one value per channel"),
        ({"std": (0.0, 1.0, 1.0)}, "std above 0"),
        ({"std": (np.inf, 1.0, 1.0)}, "must be finite"),
        ({"mean": (np.nan, 1.0, 1.0)}, "must be finite"),
        ({"color": "red"}, "no 'color'"),
    ],
)
def test_wrong_settings(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Preprocessing.from_dict(wrong)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["resnet18", "efficientnet_b3", "vit_b_16", "swin_v2_t"])
def test_torchvision_presets(name: str) -> None:
    models = library("torchvision").models
    from hardsight.models.libraries import _preprocessing

    preset = models.get_model_weights(name).DEFAULT.transforms()
    np.testing.assert_allclose(_preprocessing(preset)(PICTURE), preset(PICTURE), atol=2e-6)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"crop_mode": "squash"},
        {"crop_mode": "border"},
        {"crop_pct": 1.0},
        {"input_size": (3, 96, 128), "interpolation": "bilinear"},  # timm's choice for what is not square, whatever it states
    ],
)
def test_timm_transforms(changes: dict[str, Any]) -> None:
    timm = library("timm")
    from hardsight.models.libraries import timm_preprocessing

    module = timm.create_model("resnet10t", pretrained=False, pretrained_cfg_overlay={"test_input_size": None, **changes})
    transform = timm.data.create_transform(**timm.data.resolve_model_data_config(module))
    np.testing.assert_allclose(timm_preprocessing(module)(PICTURE), transform(PICTURE), atol=2e-6)


def processors(transformers: Any) -> dict[str, Any]:
    crop = {"do_center_crop": True, "crop_size": {"height": 64, "width": 64}}
    return {
        "vit": transformers.ViTImageProcessor(size={"height": 48, "width": 48}),
        "convnext": transformers.ConvNextImageProcessor(size={"shortest_edge": 64}, crop_pct=0.875),
        "convnext large": transformers.ConvNextImageProcessor(size={"shortest_edge": 384}),
        "bit": transformers.BitImageProcessor(size={"shortest_edge": 72}, **crop),
        "deit": transformers.DeiTImageProcessor(size={"height": 72, "width": 72}, **crop),
        "efficientnet": transformers.EfficientNetImageProcessor(size={"height": 64, "width": 64}, include_top=True),
        "mobilevit": transformers.MobileViTImageProcessor(size={"shortest_edge": 72}, **crop),
    }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["vit", "convnext", "convnext large", "bit", "deit", "efficientnet", "mobilevit"])
def test_transformers_processors(kind: str, tmp_path: Path) -> None:
    transformers = library("transformers")
    from hardsight.models.libraries import _read_processor, processor_preprocessing

    processor = processors(transformers)[kind]
    processor.save_pretrained(tmp_path)
    ours = processor_preprocessing(_read_processor(tmp_path), transformers.ViTConfig())
    theirs = np.asarray(processor(PICTURE)["pixel_values"][0])
    assert ours(PICTURE).shape == theirs.shape
    # transformers resizes tensors, Pillow resizes pixels: the same filter, rounded once more or once less
    assert np.abs(ours(PICTURE) - theirs).mean() < 0.01 * np.abs(theirs).max()


@pytest.mark.parametrize("resize", ["shortest", "squash", "longest"])
@pytest.mark.parametrize("size", [(40, 40), (40, 60)])
def test_reading_scales_large_jpegs_and_exactly_if_asked(tmp_path: Path, resize: Any, size: tuple[int, int]) -> None:
    PICTURE.resize((1203, 800)).save(tmp_path / "large.jpg", quality=95)
    data = open_data(tmp_path)
    prepare = Preprocessing(size=size, resize=resize, crop_pct=0.9, interpolation="bicubic")
    assert dataclasses.replace(prepare, exact_decode=True).needed is None
    exact, scaled = (prepare.fitted(data.image(0, needed)) for needed in (None, prepare.needed))
    assert scaled.size == exact.size and scaled.tobytes() != exact.tobytes()
    assert np.abs(np.asarray(scaled, np.float64) - np.asarray(exact, np.float64)).mean() < 2.0
    assert data.image(0, prepare.needed).width < 400
