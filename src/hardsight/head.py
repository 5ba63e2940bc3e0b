"""Heads turn features into logits: the last step of every classifier we read or train.

Four kinds, by `kind`:

    linear     features @ weight.T + bias
    cosine     scale * cos(features, weight)
    angular    -scale * angle(features, weight)
    gaussian   log prior - 1/2 log|S| - 1/2 (x - mean)' S^-1 (x - mean), with the means in `weight`

A Gaussian head has no natural origin: moving all features and means together changes no logit. Its angles are measured around
the mean of the class means, so that such a move changes no angle either.

Wherever a head is accepted, a bare `weight` array or an `nn.Linear` means a linear head.
"""

from __future__ import annotations

import copy
import sys
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from hardsight.checks import as_matrix, as_numbers, check_same_space, check_weight, is_tensor, namespace, to_numpy, widened
from hardsight.errors import InputError, check_choice
from hardsight.geometry import angles, row_norms

ARRAYS = ("weight", "bias", "log_variance", "log_prior")
Kind = Literal["linear", "cosine", "angular", "gaussian"]


@dataclass(frozen=True, eq=False)
class Head:
    """Class vectors and how they turn features into logits.

    Args:
        kind: "linear", "cosine", "angular" or "gaussian".
        weight: (c, d) one row per class; the class means if gaussian.
        bias: (c,) linear only.
        scale: cosine and angular only; default 1. It changes confidences, never angles.
        log_variance: gaussian only: None for the identity, (d,) shared by all classes, or (c, d).
        log_prior: (c,) gaussian only; None for equal priors.

    Example:
        >>> head = Head("linear", np.eye(2), bias=np.array([0.0, 1.0]))
        >>> head.logits(np.array([[3.0, 4.0]]))
        array([[3., 5.]])
    """

    kind: Kind
    weight: Any
    bias: Any = None
    scale: float | None = None
    log_variance: Any = None
    log_prior: Any = None

    def __post_init__(self) -> None:
        check_choice(self.kind, get_args(Kind), "a head's kind")
        put = object.__setattr__  # the arrays are checked once, here
        put(self, "weight", check_weight(self.weight, directions=self.kind in ("cosine", "angular")))
        c, d = self.weight.shape
        put(self, "bias", self._vector("bias", self.bias, {"linear"}, (c,)))
        put(self, "log_prior", self._vector("log_prior", self.log_prior, {"gaussian"}, (c,)))
        put(self, "log_variance", self._vector("log_variance", self.log_variance, {"gaussian"}, (d,), (c, d)))
        if self.scale is not None:
            self._only("scale", {"cosine", "angular"})
            put(self, "scale", _number("scale", self.scale))
            if not (self.scale is not None and np.isfinite(self.scale) and self.scale > 0):
                raise InputError(f"scale must be a positive number, got {self.scale}.")

    def __repr__(self) -> str:
        arrays = [name for name in ("bias", "log_variance", "log_prior") if getattr(self, name) is not None]
        scale = [] if self.scale is None else [f"scale {self.scale:g}"]
        sizes = [f"{self.num_classes} class{'es' * (self.num_classes != 1)}", f"{self.num_features} features"]
        return f"Head({', '.join([self.kind, *sizes, *scale, *arrays])})"

    @property
    def num_classes(self) -> int:
        """c, the number of class vectors."""
        return int(self.weight.shape[0])

    @property
    def num_features(self) -> int:
        """d, the length of a feature."""
        return int(self.weight.shape[1])

    @property
    def origin(self) -> np.ndarray | None:
        """(d,) vertex of the angles: the mean of a Gaussian head's class means; None (zero) for other heads."""
        return to_numpy(self.weight).astype(np.float64).mean(0) if self.kind == "gaussian" else None

    @property
    def directions(self) -> Any:
        """(c, d) class vectors that angles are measured to: the rows of `weight`, minus `origin` if there is one.

        A class mean that equals the mean of all means up to rounding has no direction: its row is all zeros.
        """
        if self.origin is None:
            return self.weight
        mean = to_numpy(self.weight)
        moved = mean - self.origin
        rounding = 4 * np.finfo(mean.dtype).eps * np.abs(mean).max(initial=0)
        return np.where(np.abs(moved).max(axis=1, keepdims=True) > rounding, moved, 0.0)

    def centered(self) -> Head:
        """The same head in coordinates centered on `origin`, with the same logits for centered features."""
        return self if self.origin is None else self._with(weight=self.directions)

    def around_origin(self, features: Any) -> Any:
        """(n, d) features in the coordinates of `centered`, in float64; unchanged if there is no `origin`."""
        if self.origin is None:
            return features
        if is_tensor(features):
            return features.double() - sys.modules["torch"].as_tensor(self.origin, device=features.device)
        return features - self.origin

    def angles(self, features: Any) -> Any:
        """(n, d) features -> (n, c) angles in radians to the class vectors, around `origin`.

        Example:
            >>> head = Head("gaussian", np.array([[4.0, 5.0], [6.0, 5.0]]))  # means left and right of (5, 5)
            >>> np.degrees(head.angles(np.array([[3.0, 5.0], [5.0, 9.0]]))).round(3)
            array([[  0., 180.],
                   [ 90.,  90.]])
        """
        features = widened(as_matrix(features, "features"))
        check_same_space(features, self.weight)
        vectors = self.directions if is_tensor(features) else to_numpy(self.directions)  # (c, d)
        return angles(self.around_origin(features), vectors)

    def classes(self, cut: slice | np.ndarray) -> Head:
        """The same head of some classes only, or of all in another order."""
        per_class = self.log_variance is not None and self.log_variance.ndim == 2
        cut_too = ["weight", "bias", "log_prior", *(["log_variance"] if per_class else [])]
        arrays = {name: getattr(self, name) for name in cut_too}
        return self._with(**{name: array[cut] for name, array in arrays.items() if array is not None})

    def like(self, x: Any) -> Head:
        """The same head with its arrays in x's library, dtype and device."""

        def move(a: Any) -> Any:
            if a is None:
                return None
            if is_tensor(x):
                return sys.modules["torch"].as_tensor(a, dtype=x.dtype, device=x.device)
            return to_numpy(a).astype(x.dtype, copy=False)

        return self._with(**{name: move(getattr(self, name)) for name in ARRAYS})

    def _with(self, **arrays: Any) -> Head:
        """The same head with some arrays derived from validated ones, without validating them again."""
        head = copy.copy(self)
        vars(head).update(arrays)
        return head

    def logits(self, features: Any) -> Any:
        """(n, d) features -> (n, c) logits, in the features' library."""
        features = widened(as_matrix(features, "features"))
        check_same_space(features, self.weight)
        head = self.like(features)
        if head.kind == "linear":
            product = features @ head.weight.T  # (n, c)
            return product if head.bias is None else product + head.bias
        if head.kind == "gaussian":
            # Distances to far-off means suffer from cancellation, so they are computed in float64 for any dtype.
            wide = features.astype(np.float64) if namespace(features) is np else features.double()
            with np.errstate(over="ignore", invalid="ignore"):  # tiny variances give infinite logits, which are reported
                joint = self.like(wide)._log_joint(wide)
            return joint.astype(features.dtype) if namespace(features) is np else joint.to(features.dtype)
        theta = angles(features, head.weight)  # (n, c)
        xp, scale = namespace(theta), head.scale or 1.0
        return scale * xp.cos(theta) if head.kind == "cosine" else -scale * theta

    def _log_joint(self, x: Any) -> Any:
        """log p(k) + log N(x; mean_k, S_k) without the constant d/2 log 2 pi."""
        xp = namespace(x)
        center = self.weight.mean(0)  # leaves distances unchanged, and keeps the precision of far-off features
        x, mean = x - center, self.weight - center
        if self.log_variance is None:
            distance = _squared_distances(x, mean)  # (n, c)
            log_det: Any = 0.0
        elif self.log_variance.ndim == 1:
            deviation = xp.exp(0.5 * self.log_variance)  # (d,)
            distance = _squared_distances(x / deviation, mean / deviation)
            log_det = self.log_variance.sum()
        else:
            precision = xp.exp(-self.log_variance)  # (c, d)
            distance = x**2 @ precision.T - 2 * x @ (mean * precision).T + (mean**2 * precision).sum(1)
            log_det = self.log_variance.sum(1)  # (c,)
        logits = -0.5 * (distance.clip(0) + log_det)
        return logits if self.log_prior is None else logits + self.log_prior

    def _only(self, name: str, kinds: set[str]) -> None:
        if self.kind not in kinds:
            owner = " or ".join(sorted(kinds))
            raise InputError(f"{name} belongs to {'an' if owner[0] == 'a' else 'a'} {owner} head, and this one is {self.kind}.")

    def _vector(self, name: str, value: Any, kinds: set[str], *shapes: tuple[int, ...]) -> Any:
        if value is None:
            return None
        self._only(name, kinds)
        value = as_numbers(value, name)
        if tuple(value.shape) not in shapes:
            wanted = " or ".join(str(shape) for shape in shapes)
            raise InputError(
                f"{name} must have shape {wanted} to go with weight {tuple(self.weight.shape)}, got {tuple(value.shape)}."
            )
        if not np.isfinite(to_numpy(value)).all():
            raise InputError(f"{name} must be finite.")
        return value


def _number(name: str, value: Any) -> float:
    try:
        number = to_numpy(as_numbers(value, name))
    except InputError:
        number = np.empty(0)
    if number.ndim:
        raise InputError(f"{name} must be a positive number, got {value!r}.")
    return float(number)


def _squared_distances(x: Any, y: Any) -> Any:
    """(n, d), (c, d) -> (n, c) squared Euclidean distances with one matrix product."""
    xp = namespace(x)
    return row_norms(x, xp)[:, None] ** 2 - 2 * x @ y.T + row_norms(y, xp) ** 2


def is_estimator(model: Any) -> bool:
    """Whether this is a scikit-learn estimator or pipeline."""
    return hasattr(model, "get_params") and (hasattr(model, "predict") or hasattr(model, "steps"))


def as_head(head: Any, bias: Any = None) -> Head:
    """A Head unchanged; an `nn.Linear` or a weight array as a linear Head."""
    if is_estimator(head):
        raise InputError(f"{type(head).__name__} from scikit-learn works as a head only in hardsight.score(X, model, y).")
    layer = _torch_layer(head)
    if isinstance(head, Head) or layer:
        if bias is not None:
            raise InputError(f"bias goes with a weight array; a {'layer' if layer else 'Head'} already has its own.")
        return Head("linear", head.weight, bias=head.bias) if layer else head
    return Head("linear", head, bias=bias)


def _torch_layer(head: Any) -> bool:
    """Whether this is an `nn.Linear`; other modules are rejected with a hint about what to pass."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(head, torch.nn.Module):
        return False
    if not isinstance(head, torch.nn.Linear):
        raise InputError(
            f"a head is the last linear layer, got the module {type(head).__name__}: pass its nn.Linear, or weight and bias. "
            "To score images with a whole network, use hardsight.extract."
        )
    return True
