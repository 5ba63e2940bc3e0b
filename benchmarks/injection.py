"""Injected hardness, so that the hard samples are known.

wrong labels      uniform, pair, adjacent, instance: `mislabeled`
atypical views    shift, zoom, crop: `VIEWS`
no class at all   far: pixels in random order (`scrambled`); near: images of left-out classes, which need no function
copies            duplicate: `copied`

Images are (n, channels, h, w) in [0, 1]. Everything is seeded; exactly the requested share is mislabeled, and a wrong label is
never the right one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

WrongLabels = tuple[np.ndarray, np.ndarray | None]  # (n,) the wrong label of each sample, and (n,) its probability

SHIFT = 4  # an image is shifted by its side divided by this
WINDOW = 5 / 8  # share of the side that a crop keeps
COPY_NOISE = 0.02  # standard deviation of the noise added to a copy, as from recompression


def mislabeled(kind: str, images: np.ndarray, labels: np.ndarray, rate: float, seed: int) -> np.ndarray:
    """(n,) labels with exactly round(rate n) of them wrong.

    Args:
        kind: one of `MISLABELS`.
        images: (n, channels, h, w), for the kinds that depend on the images.
        labels: (n,) correct labels, 0 to c - 1.
        rate: share to change.
        seed: random seed.
    """
    rng = np.random.default_rng([seed, list(MISLABELS).index(kind)])
    wrong, chance = MISLABELS[kind](images, labels, rng)
    changed = rng.choice(len(labels), round(rate * len(labels)), replace=False, p=chance)
    noisy = labels.copy()
    noisy[changed] = wrong[changed]
    return noisy


def _uniform(images: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> WrongLabels:
    """Any other class, uniformly."""
    c = int(labels.max()) + 1
    return (labels + rng.integers(1, c, len(labels))) % c, None


def _pair(images: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> WrongLabels:
    """Always the next class: 0 becomes 1, the last becomes 0."""
    return (labels + 1) % (int(labels.max()) + 1), None


def _adjacent(images: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> WrongLabels:
    """The most similar class: its mean image is closest to that of the correct class."""
    means = _class_means(images, labels)
    between = _distances(means, means)  # (c, c)
    np.fill_diagonal(between, np.inf)
    return between.argmin(1)[labels], None


def _instance(images: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> WrongLabels:
    """The class whose mean is closest to this image, with a probability that grows with closeness."""
    flat = images.reshape(len(images), -1)
    distances = _distances(flat, _class_means(images, labels))  # (n, c)
    rows = np.arange(len(labels))
    own = distances[rows, labels].copy()
    distances[rows, labels] = np.inf
    margin = distances.min(1) - own  # (n,) small or negative if the image looks like another class
    chance = np.exp(-margin / (margin.std() or 1.0))
    return distances.argmin(1), chance / chance.sum()


MISLABELS: dict[str, Callable[[np.ndarray, np.ndarray, np.random.Generator], WrongLabels]] = {
    "uniform": _uniform,
    "pair": _pair,
    "adjacent": _adjacent,
    "instance": _instance,
}


def _class_means(images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """(c, pixels) mean image of each class."""
    flat = images.reshape(len(images), -1)
    return np.stack([flat[labels == k].mean(0, dtype=np.float64) for k in range(int(labels.max()) + 1)])


def _distances(x: np.ndarray, means: np.ndarray) -> np.ndarray:
    """(n, pixels), (c, pixels) -> (n, c) Euclidean distances."""
    squares = (x.astype(np.float64) ** 2).sum(1)[:, None] - 2 * x @ means.T + (means**2).sum(1)
    return np.sqrt(np.maximum(squares, 0.0))


def shifted(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Each image shifted by a quarter of its side, up or down and left or right, filled with black."""
    n, _, h, w = images.shape
    down, right = max(1, h // SHIFT), max(1, w // SHIFT)
    padded = np.pad(images, ((0, 0), (0, 0), (down, down), (right, right)))
    result = np.empty_like(images)
    direction = rng.integers(0, 4, n)
    for which, (top, left) in enumerate((top, left) for top in (0, 2 * down) for left in (0, 2 * right)):
        rows = direction == which
        result[rows] = padded[rows, :, top : top + h, left : left + w]
    return result


def zoomed(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The center of each image, enlarged twice."""
    h, w = images.shape[2:]
    rows, columns = h // 4 + np.arange(h) // 2, w // 4 + np.arange(w) // 2
    return np.ascontiguousarray(images[:, :, rows][:, :, :, columns])


def cropped(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A random window of each image; the rest is black."""
    n, _, h, w = images.shape

    def inside(side: int) -> np.ndarray:
        size = round(WINDOW * side)
        first = rng.integers(0, side - size + 1, (n, 1))
        return (np.arange(side) >= first) & (np.arange(side) < first + size)  # (n, side)

    return images * (inside(h)[:, None, :, None] & inside(w)[:, None, None, :])


VIEWS: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {"shift": shifted, "zoom": zoomed, "crop": cropped}


def scrambled(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The pixels of each image in random order: the same brightness, but no content."""
    return rng.permuted(images.reshape(len(images), -1), axis=1).reshape(images.shape)


def copied(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Copies with slight noise."""
    noise = rng.normal(0.0, COPY_NOISE, images.shape)
    return np.clip(images + noise, 0.0, 1.0).astype(images.dtype)
