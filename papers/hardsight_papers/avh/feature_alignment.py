"""MMD, DANN and CORAL on frozen features, to run beside ours in Tables 3 and 5. The papers train whole networks with them.

A head of one hidden layer h, cross-entropy on the labeled domains, and a penalty on what tells domains apart in h:

    MMD     mean over pairs of domains of MMD^2(h_a, h_b), Gaussian kernels of five widths        Long et al., ICML 2015
    DANN    cross-entropy of a domain classifier on h, with its gradient reversed                 Ganin et al., JMLR 2016
    CORAL   mean over pairs of the squared difference of their means and covariances              Sun and Saenko, ECCV 2016
    none    the same training without a penalty: the control
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hardsight_papers.arrays import even_rows, read_arrays
from hardsight_papers.context import Context, fingerprint

if TYPE_CHECKING:
    from torch import Tensor

Domain = tuple[np.ndarray, np.ndarray]  # (n, d) standardized features and (n,) labels; all -1 for one without labels
STEPS, BATCH, RATE, HIDDEN = 300, 64, 0.01, 256  # samples of each domain in a step
WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the median squared distance
NAMES = {"none": "no alignment", "mmd": "MMD", "dann": "DANN", "coral": "CORAL"}


def read_domains(path: Path, limit: int) -> tuple[dict[str, Domain], list[str]]:
    """Features and labels of each domain in an .npz, at most `limit` of each, and the names of the classes."""
    wanted = {"features": "(n, d)", "labels": "(n,)", "domains": "(n,)", "domain_names": "(k,)", "class_names": "(c,)"}
    arrays = read_arrays(path, wanted)
    names = arrays["domain_names"][arrays["domains"]]
    domains = {
        str(name): limited((arrays["features"][names == name], arrays["labels"][names == name]), limit)
        for name in dict.fromkeys(names.tolist())
    }
    return domains, arrays["class_names"].tolist()


def limited(domain: Domain, limit: int) -> Domain:
    """At most `limit` samples, spread evenly."""
    rows = even_rows(len(domain[1]), limit)
    return domain[0][rows].astype(np.float32), domain[1][rows].astype(np.int64)


def standardized(features: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Features less the mean of others, over their deviation; a feature that never changes becomes 0."""
    mean, deviation = like.mean(0, dtype=np.float64), like.std(0, dtype=np.float64)
    deviation = np.where(deviation > 0, deviation, 1.0)
    return np.ascontiguousarray((features - mean.astype(np.float32)) / deviation.astype(np.float32), np.float32)


def predictions(
    context: Context, domains: Sequence[Domain], target: np.ndarray, penalty: str, seeds: Sequence[int]
) -> np.ndarray:
    """(seeds, n) predicted classes of the target's (n, d) features; trained once."""
    key = {"domains": fingerprint(list(domains)), "target": fingerprint(target), "penalty": penalty, "seeds": list(seeds)}
    key |= {"steps": STEPS, "batch": BATCH, "rate": RATE, "hidden": HIDDEN}
    context.say(f"{NAMES[penalty]} on features")

    def make() -> dict[str, np.ndarray]:
        return {"predicted": np.stack([_trained(domains, target, penalty, seed) for seed in seeds])}

    return context.cache.arrays("feature-alignment", key, make)["predicted"]


def class_accuracy(predicted: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """(seeds, n) and (n,) -> (seeds, c) share of each class that is right.

    Example:
        >>> class_accuracy(np.array([[0, 1, 1]]), np.array([0, 0, 1]))
        array([[0.5, 1. ]])
    """
    return np.stack([(predicted == labels)[:, labels == k].mean(1) for k in np.unique(labels[labels >= 0])], axis=1)


def _trained(domains: Sequence[Domain], target: np.ndarray, penalty: str, seed: int) -> np.ndarray:
    """Train on equal batches of every domain, and predict the target."""
    import torch
    from torch import nn

    torch.manual_seed(seed)
    width, c = domains[0][0].shape[1], 1 + max(int(labels.max()) for _, labels in domains)
    hidden, last = nn.Sequential(nn.Linear(width, HIDDEN), nn.ReLU()), nn.Linear(HIDDEN, c)
    critic = nn.Sequential(nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, len(domains)))
    optimizer = torch.optim.SGD(nn.ModuleList([hidden, last, critic]).parameters(), lr=RATE, momentum=0.9, weight_decay=5e-4)
    inputs = [(torch.tensor(features), torch.tensor(labels)) for features, labels in domains]
    for step in range(STEPS):
        rows = [torch.randint(len(labels), (BATCH,)) for _, labels in inputs]
        batches = [hidden(features[row]) for (features, _), row in zip(inputs, rows, strict=True)]  # (b, h) each
        labels = torch.cat([own[row] for (_, own), row in zip(inputs, rows, strict=True)])
        loss = nn.functional.cross_entropy(last(torch.cat(batches)), labels, ignore_index=-1)
        if penalty == "dann":
            strength = 2 / (1 + np.exp(-10 * step / STEPS)) - 1  # from 0 to 1, as in the paper
            loss = loss + _domain_loss(critic, batches, float(strength))
        elif penalty != "none":
            pairs = list(itertools.combinations(batches, 2))
            loss = loss + sum(PENALTIES[penalty](a, b) for a, b in pairs) / len(pairs)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        return np.asarray(last(hidden(torch.tensor(target))).argmax(1).numpy())


def mmd(a: Tensor, b: Tensor) -> Tensor:
    """(b, h) each -> () squared maximum mean discrepancy, biased: 0 where both are the same samples."""
    import torch

    both = torch.cat([a, b])
    squared = torch.cdist(both, both).square()  # (2b, 2b)
    median = squared.detach().median().clamp(min=1e-12)
    kernel = torch.stack([torch.exp(-squared / (width * median)) for width in WIDTHS]).mean(0)
    n = len(a)
    return kernel[:n, :n].mean() + kernel[n:, n:].mean() - 2 * kernel[:n, n:].mean()


def coral(a: Tensor, b: Tensor) -> Tensor:
    """(b, h) each -> () mean squared difference of their means and of their covariances."""
    means, covariances = [x.mean(0) for x in (a, b)], [_covariance(x) for x in (a, b)]
    return (means[0] - means[1]).square().mean() + (covariances[0] - covariances[1]).square().mean()


PENALTIES = {"mmd": mmd, "coral": coral}


def _covariance(x: Tensor) -> Tensor:
    centered = x - x.mean(0)
    return centered.T @ centered / (len(x) - 1)


def _domain_loss(critic: Any, batches: Sequence[Tensor], strength: float) -> Tensor:
    """Cross-entropy of the domains; its gradient reaches the critic as it is, and what is below it reversed."""
    import torch

    together = torch.cat(list(batches))
    reversed_below = (1 + strength) * together.detach() - strength * together  # the value of h, -strength times its gradient
    domain = torch.repeat_interleave(torch.arange(len(batches)), len(batches[0]))
    return torch.nn.functional.cross_entropy(critic(reversed_below), domain)
