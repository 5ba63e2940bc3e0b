"""Gray images as arrays, for networks on pixels and for views made by hand."""

from __future__ import annotations

import numpy as np

from hardsight.data import ImageData


def as_pixels(data: ImageData, flat: bool = True) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """(n, pixels) from 0 to 1, or (n, 1, h, w); (n,) labels; and ids.

    Example:
        >>> from hardsight.data import open_data
        >>> [as_pixels(open_data("digits"), flat)[0].shape for flat in (True, False)]
        [(1797, 64), (1797, 1, 8, 8)]
    """
    images = np.stack([np.asarray(data.image(row)) for row in range(len(data))]).astype(np.float32) / 255  # (n, h, w)
    assert data.labels is not None
    return images.reshape(len(images), -1) if flat else images[:, None], data.labels, data.ids
