"""Random features, or logits, with labels."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def batch(n: int = 12, d: int = 7, c: int = 5, dtype: Any = None, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(n, d, generator=generator, dtype=torch.float64)
    return features.to(dtype or torch.float64), torch.randint(0, c, (n,), generator=generator)
