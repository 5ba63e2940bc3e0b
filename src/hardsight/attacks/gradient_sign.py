"""FGSM and PGD: pixels moved along the sign of the loss's gradient, at most epsilon each.

    FGSM    x' = clip(x + epsilon sign(grad L(x, y)))                            Goodfellow et al., ICLR 2015
    PGD     the same in many small steps, each brought back into the ball        Madry et al., ICLR 2018

Pixels go from 0 to 1, before any normalization, and so does epsilon. L is cross-entropy on the logits that the model
predicts with: a margin that its loss adds in training has no part in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

Logits = Callable[[Tensor], Tensor]  # (b, C, H, W) pixels -> (b, c) logits


def rising_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """(b, c) logits -> (b,) log sum_{k != y} exp(z_k) - z_y, which rises with cross-entropy.

    Cross-entropy is log(1 + exp of this), so the gradients of both point the same way. But the softmax of a sure prediction
    rounds to 1 and cross-entropy to a flat 0, where an attack would find no way and the model would seem robust. This does not.
    """
    own = torch.nn.functional.one_hot(labels, logits.shape[1]).bool()  # (b, c)
    return logits.masked_fill(own, -torch.inf).logsumexp(1) - logits[own]


def slope(logits_of: Logits, pixels: Tensor, labels: Tensor) -> Tensor:
    """The sign of the loss's gradient at every pixel: -1, 0 or 1, in the shape of the pixels."""
    pixels = pixels.detach().requires_grad_()
    with torch.enable_grad():
        (gradient,) = torch.autograd.grad(rising_loss(logits_of(pixels), labels).sum(), pixels)
    return gradient.sign()


def moved(pixels: Tensor, direction: Tensor, epsilon: float) -> Tensor:
    """Pixels moved by epsilon along signs, within 0 to 1."""
    return (pixels + epsilon * direction).clamp(0, 1)


def fgsm(logits_of: Logits, pixels: Tensor, labels: Tensor, epsilon: float) -> Tensor:
    """The fast gradient sign method: one step, as long as may be.

    Example:
        >>> weight = torch.tensor([[1.0, 0.0], [0.0, 1.0]])  # class 0 likes the first pixel, class 1 the second
        >>> fgsm(lambda x: x @ weight.T, torch.tensor([[0.75, 0.25]]), torch.tensor([0]), 0.25)
        tensor([[0.5000, 0.5000]])
    """
    return moved(pixels, slope(logits_of, pixels, labels), epsilon)


def within(pixels: Tensor, around: Tensor, epsilon: float) -> Tensor:
    """Pixels brought back to at most epsilon from where they were, and to 0 to 1."""
    return torch.minimum(torch.maximum(pixels, around - epsilon), around + epsilon).clamp(0, 1)


def pgd(
    logits_of: Logits, pixels: Tensor, labels: Tensor, epsilon: float, *,
    steps: int = 10, step_size: float | None = None, noise: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Projected gradient steps within epsilon, from the pixels or from a random place near them.

    Args:
        step_size: 2.5 epsilon / steps by default, so that the border can be reached from anywhere.
        noise: in -1 to 1, in the shape of the pixels: where in the ball to start. None starts at its middle.
    """
    size = 2.5 * epsilon / steps if step_size is None else step_size
    attacked = pixels if noise is None else within(pixels + epsilon * noise, pixels, epsilon)
    for _ in range(steps):
        attacked = within(attacked + size * slope(logits_of, attacked, labels), pixels, epsilon)
    return attacked


def ascent(logits_of: Logits, pixels: Tensor, labels: Tensor, epsilon: float, steps: int) -> Iterator[Tensor]:
    """The pixels, and where gradient ascent by equal small steps takes them, one by one, until they may have moved by epsilon."""
    attacked = pixels
    yield attacked
    for _ in range(steps):
        attacked = moved(attacked, slope(logits_of, attacked, labels), epsilon / steps)
        yield attacked
