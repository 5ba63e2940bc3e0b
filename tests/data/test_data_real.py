"""Real data, where it is at hand: a directory named by HARDSIGHT_DATA, or shared/data beside the project."""

from __future__ import annotations

import pickle

import numpy as np

from hardsight.data import open_data
from real_data import real


def test_pacs() -> None:
    data = open_data(real("pacs64.tar"))
    assert len(data) == 9991 and data.class_names == ["dog", "elephant", "giraffe", "guitar", "horse", "house", "person"]
    domains = {name: data.columns["domain"].count(name) for name in sorted(set(data.columns["domain"]))}
    assert domains == {"art_painting": 2048, "cartoon": 2344, "photo": 1670, "sketch": 3929}
    again = pickle.loads(pickle.dumps(data))
    assert {again.image(row).size for row in range(0, 9991, 500)} == {(64, 64)}
    assert len(set(open_data(real("pacs64.tar"), limit=40).columns["domain"])) == 4
    with np.load(real("pacs_effnetlite0.npz"), allow_pickle=False) as arrays:
        told = dict(zip(map(_stem, arrays["ids"].tolist()), arrays["labels"].tolist(), strict=True))
    assert data.labels is not None and told == dict(zip(map(_stem, data.ids), data.labels.tolist(), strict=True))


def _stem(id: str) -> str:
    return id.rpartition(".")[0]  # the features were made from .png where the tar holds .jpg


def test_mnist() -> None:
    test = open_data(real("mnist.npz"), split="test")
    assert len(test) == 10_000 and test.ids[0] == "test/0" and test.image(0).size == (28, 28)
    assert test.labels is not None and test.labels[:5].tolist() == [7, 2, 1, 0, 4]


def test_cifar() -> None:
    data = open_data(real("cifar10_test.npz"))
    assert data.class_names is not None and len(data) == 10_000
    with np.load(real("cifar10_test.npz"), allow_pickle=False) as arrays:
        assert np.array_equal(np.asarray(data.image(77)), arrays["images"][77])
