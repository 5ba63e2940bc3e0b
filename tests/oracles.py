"""The slow, plain answers the tests compare with: float64, one pair at a time, no blocks and no tricks."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import logsumexp, softmax
from scipy.stats import entropy, norm

from hardsight import Head


def on_circle(*degrees: float) -> np.ndarray:
    """Unit vectors in the plane, one per angle."""
    radians = np.deg2rad(degrees)
    return np.stack([np.cos(radians), np.sin(radians)], axis=1)


def angle(u: np.ndarray, v: np.ndarray) -> float:
    """The angle between two vectors, exact also near 0 and pi."""
    u, v = u.astype(np.float64), v.astype(np.float64)
    u, v = u / np.linalg.norm(u), v / np.linalg.norm(v)
    return 2 * math.atan2(float(np.linalg.norm(u - v)), float(np.linalg.norm(u + v)))


def angle_table(features: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """(n, d), (c, d) -> (n, c) by a double loop."""
    return np.array([[angle(x, w) for w in weight] for x in features])


def row_scores(features: np.ndarray, head: Head, labels: np.ndarray) -> dict[str, np.ndarray]:
    """Every row score of a head with at least two classes, from its formula."""
    x, c = features.astype(np.float64), head.num_classes
    center = head.weight.mean(0) if head.kind == "gaussian" else 0.0  # a Gaussian head's space has no origin of its own
    theta = angle_table(x - center, head.weight - center)
    logits = plain_logits(x, head, theta)
    nobias = plain_logits(x, Head("linear", head.weight), theta) if head.kind == "linear" else logits
    rows: dict[str, list[float]] = {}
    for t, z, bare, one, y in zip(theta, logits, nobias, x, labels, strict=True):
        others = np.arange(c) != y
        p, predicted = softmax(z), int(np.argmax(z))
        values = {
            "avh": t[y] / t.sum(),
            "avh_relative": c * t[y] / t.sum(),
            "avc_label": (np.pi - t[y]) / (np.pi - t).sum(),
            "avc_predicted": (np.pi - t[predicted]) / (np.pi - t).sum(),
            "own_angle": t[y],
            "nearest_angle": t[others].min(),
            "angular_gap": t[y] - t[others].min(),
            "norm": np.linalg.norm(one),
            "confidence": p[y],
            "confidence_nobias": softmax(bare)[y],
            "predicted_confidence": p.max(),
            "probability_margin": p[y] - p[others].max(),
            "logit_margin": z[y] - z[others].max(),
            "max_logit": z.max(),
            "entropy": entropy(p),
            "el2n": np.linalg.norm(p - np.eye(c)[y]),
            "loss": logsumexp(z) - z[y],
        }
        for name, value in values.items():
            rows.setdefault(name, []).append(float(value))
    return {name: np.array(column) for name, column in rows.items()}


def plain_logits(x: np.ndarray, head: Head, theta: np.ndarray) -> np.ndarray:
    """The four kinds of head, one entry at a time."""
    weight = head.weight.astype(np.float64)
    result = np.zeros(theta.shape)
    for i, j in np.ndindex(*theta.shape):
        if head.kind == "linear":
            result[i, j] = math.fsum(x[i] * weight[j]) + (0.0 if head.bias is None else head.bias[j])
        elif head.kind == "cosine":
            result[i, j] = (head.scale or 1.0) * math.cos(theta[i, j])
        elif head.kind == "angular":
            result[i, j] = -(head.scale or 1.0) * theta[i, j]
        else:
            log_variance = np.zeros(weight.shape[1]) if head.log_variance is None else np.atleast_2d(head.log_variance)
            log_variance = np.broadcast_to(log_variance, weight.shape)[j]
            density = norm.logpdf(x[i], weight[j], np.exp(0.5 * log_variance)) + 0.5 * math.log(2 * math.pi)
            result[i, j] = density.sum() + (0.0 if head.log_prior is None else head.log_prior[j])
    return result


def generalized_entropy(logits: np.ndarray) -> np.ndarray:
    """GEN with power 0.1 over the 100 largest probabilities, with 1 - p as the sum of the others: (n, c) -> (n,)."""
    p = softmax(logits, axis=1)
    rest = np.array([[math.fsum(np.delete(row, k)) for k in range(len(row))] for row in p])  # (n, c)
    terms = (p * rest) ** 0.1
    largest = np.argsort(-p, axis=1)[:, :100]
    return np.take_along_axis(terms, largest, 1).sum(1)
