"""MMD and DANN on features, for Table 3: a head trained on the source while its hidden units are to look alike in both domains.

mmd    the maximum mean discrepancy of the hidden units with Gaussian kernels is added to the loss (Long et al., 2015)
dann   a second head tells the domains apart, and its gradient is reversed (Ganin et al., 2016)
"""

from __future__ import annotations

from typing import Any

import numpy as np

STEPS, BATCH, HIDDEN, WEIGHT = 300, 128, 256, 1.0


def trained_together(source: Any, target: Any, how: str, seed: int) -> float:
    """Mean class accuracy on the target of a head trained with `mmd`, `dann` or neither (`source`).

    Args:
        source: (features, labels); every domain is standardized by itself.
        target: the same; its labels are used only here, for the accuracy.
        how: which of the losses.
        seed: of weights and batches.
    """
    import torch
    from torch import nn
    from torch.nn import functional as F

    (here, labels), (there, truth) = ((_standardized(x), torch.tensor(np.asarray(y, np.int64))) for x, y in (source, target))
    rng = np.random.default_rng(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        hidden = nn.Sequential(nn.Linear(here.shape[1], HIDDEN), nn.ReLU())
        head, domain = nn.Linear(HIDDEN, int(labels.max()) + 1), nn.Linear(HIDDEN, 2)
    optimizer = torch.optim.AdamW([*hidden.parameters(), *head.parameters(), *domain.parameters()], lr=1e-3)
    which = torch.arange(2).repeat_interleave(BATCH)
    for step in range(STEPS):
        a, b = rng.integers(len(here), size=BATCH), rng.integers(len(there), size=BATCH)
        ours, theirs = hidden(here[a]), hidden(there[b])  # (BATCH, HIDDEN) each
        loss = F.cross_entropy(head(ours), labels[a])
        if how == "mmd":
            loss = loss + WEIGHT * discrepancy(ours, theirs)
        elif how == "dann":
            strength = 2 / (1 + np.exp(-10 * step / STEPS)) - 1  # from 0 to 1, as in the paper
            both = torch.cat([ours, theirs])
            reversed_ = (1 + strength) * both.detach() - strength * both  # the same values, the gradient times -strength
            loss = loss + WEIGHT * F.cross_entropy(domain(reversed_), which)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        predicted = head(hidden(there)).argmax(1)
    right = (predicted == truth).numpy()
    return float(np.mean([right[truth.numpy() == k].mean() for k in np.unique(truth.numpy())]))


def _standardized(features: Any) -> Any:
    import torch

    values = np.asarray(features, np.float32)
    return torch.tensor((values - values.mean(0)) / (values.std(0) + 1e-6))


def discrepancy(ours: Any, theirs: Any) -> Any:
    """MMD^2 of two batches, summed over five Gaussian kernels around their median distance.

    Example:
        >>> import torch
        >>> same = torch.eye(3)
        >>> float(discrepancy(same, same)), bool(discrepancy(same, same + 5) > 1)
        (0.0, True)
    """
    import torch

    both = torch.cat([ours, theirs])
    distance = (both[:, None] - both[None]).pow(2).sum(2)  # (2b, 2b)
    middle = distance.detach().median().clamp_min(1e-6)
    kernel = sum(torch.exp(-distance / (middle * 2.0**power)) for power in range(-2, 3))
    n = len(ours)
    return kernel[:n, :n].mean() + kernel[n:, n:].mean() - 2 * kernel[:n, n:].mean()  # type: ignore[index]
