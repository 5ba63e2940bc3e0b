"""A large weight matrix updated implicitly: the exact update of Vincent, de Brebisson and Bouthillier (NIPS 2015).

A loss that depends on the logits o = W x only through o_y, their sum and the sum of their squares has a gradient of the form

    dL/do = a o + b 1 + g e_y

so a step of plain SGD on n samples, the rows of X (n, d), turns the (c, d) matrix W into

    W M - 1 (X' b)' - sum_i g_i e_{y_i} x_i',   M = I - X' diag(a) X

W is stored as V U + 1 u'. Then U and u absorb the first two terms, and the third changes the rows y_i of V by x_i' U^-1. With
the total s = W' 1 and the Gram matrix Q = W' W stored as well, o_y = w_y x, sum o = s x and sum o^2 = x' Q x. A step costs
O(n d^2), independent of c. The (d, d) matrices are float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor, nn

LIMIT = 100.0  # of |U| |U^-1| / d, 1 for the identity: beyond it W is written out, because rows of V would lose precision
BLOCK = 2**22  # entries of W per block when it is written out
WIDE = torch.float64


class FactoredWeight(nn.Module):
    """A (c, d) matrix stored as V U + 1 u', with its total and its Gram matrix.

    Args:
        weight: (c, d) initial value; V has its dtype.
    """

    rows: Tensor
    factor: Tensor
    inverse: Tensor
    shift: Tensor
    total: Tensor
    gram: Tensor

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        d = weight.shape[1]
        self.register_buffer("rows", weight.detach().clone())  # V (c, d)
        self.register_buffer("factor", torch.eye(d, dtype=WIDE))  # U (d, d)
        self.register_buffer("inverse", torch.eye(d, dtype=WIDE))  # U^-1
        self.register_buffer("shift", torch.zeros(d, dtype=WIDE))  # u (d,)
        self.register_buffer("total", torch.zeros(d, dtype=WIDE))  # s (d,)
        self.register_buffer("gram", torch.zeros(d, d, dtype=WIDE))  # Q (d, d)
        self._sum_up()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """For `to`, `float`, `cuda` and so on: everything except V stays float64."""
        moved: Self = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name in ("factor", "inverse", "shift", "total", "gram"):
            setattr(self, name, getattr(self, name).to(WIDE))
        return moved

    def __len__(self) -> int:
        return len(self.rows)

    def matrix(self) -> Tensor:
        """(c, d) W, written out."""
        return torch.cat([(part.to(WIDE) @ self.factor + self.shift).to(part.dtype) for part in self.rows.split(self._height)])

    def of(self, labels: Tensor) -> Tensor:
        """(n, d) rows of W."""
        return self.rows[labels].to(WIDE) @ self.factor + self.shift

    @torch.no_grad()
    def move(self, x: Tensor, labels: Tensor, a: Tensor, b: Tensor, g: Tensor) -> None:
        """The step above: (n, d) samples, their classes, and (n,) a, b and g, multiplied by the learning rate."""
        classes, at = labels.unique(return_inverse=True)  # (m,), (n,)
        own = x.new_zeros(len(classes), x.shape[1]).index_add_(0, at, -g[:, None] * x)  # (m, d) added to their rows
        everyone, all_own = -(b @ x), own.sum(0)  # (d,) added to every row; and the sum of the additions to single rows
        cross = _times_m(self.of(classes), x, a).T @ own + torch.outer(everyone, all_own)  # (d, d)
        total = _times_m(self.total[None], x, a)[0]
        cross += torch.outer(total + 0.5 * len(self) * everyone, everyone)
        self.gram = _times_m(_times_m(self.gram, x, a).T, x, a) + cross + cross.T + own.T @ own  # M is symmetric
        self.total = total + len(self) * everyone + all_own
        self._multiply(x, a)
        self.shift = self.shift + everyone
        self.rows.index_add_(0, classes, (own @ self.inverse).to(self.rows.dtype))

    def _multiply(self, x: Tensor, a: Tensor) -> None:
        """W <- W M on the factors; if M or U is nearly singular, on W itself."""
        factor = _times_m(self.factor, x, a)
        small = torch.eye(len(x)).to(x) - x @ x.T * a  # (n, n) M^-1 = I + X' diag(a) small^-1 X (Woodbury)
        inverse = self.inverse + (x.T * a) @ torch.linalg.solve_ex(small, x @ self.inverse)[0]
        if factor.norm() * inverse.norm() <= LIMIT * len(factor):  # false if not finite
            self.factor, self.inverse, self.shift = factor, inverse, _times_m(self.shift[None], x, a)[0]
            return
        self.rows = torch.cat([_times_m(part.to(WIDE), x, a).to(part.dtype) for part in self.matrix().split(self._height)])
        self.factor, self.inverse = (torch.eye(len(factor)).to(factor) for _ in range(2))
        self.shift = torch.zeros_like(self.shift)

    def _sum_up(self) -> None:
        """Total and Gram matrix from W."""
        for part in self.matrix().split(self._height):
            wide = part.to(WIDE)
            self.total += wide.sum(0)
            self.gram += wide.T @ wide

    @property
    def _height(self) -> int:
        return max(1, BLOCK // self.rows.shape[1])


def _times_m(matrix: Tensor, x: Tensor, a: Tensor) -> Tensor:
    """(k, d) matrix times M = I - X' diag(a) X."""
    return matrix - (matrix @ x.T * a) @ x
