"""A teacher: a trained network with the same inputs and classes, whose logits another network learns from."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from hardsight.errors import InputError
from hardsight.models.model import Model
from hardsight.models.opening import check_model_name, open_model
from hardsight.models.preprocessing import Preprocessing


def check_teacher_name(spec: Any, loss: str) -> None:
    """Refuse a teacher without a loss for it, a loss without its teacher, and a text that names no model."""
    if (spec is None) != (loss != "dual_head"):
        raise InputError("the loss dual_head needs a teacher: name a run or a model." if spec is None else
                         f"a teacher goes with the loss dual_head, not with {loss}.")  # fmt: skip
    check_model_name(spec)


def open_teacher(
    spec: Any, loss: str, preprocessing: Preprocessing | None, class_names: Sequence[str] | None, device: str
) -> Model | None:
    """The model that --teacher names, or None where the loss needs none.

    Args:
        spec: a run of `hardsight train`, or anything else that `open_model` opens.
        preprocessing: how the student's images are prepared; None for arrays.
        class_names: of the training data, where they have names.
    """
    check_teacher_name(spec, loss)
    if spec is None:
        return None
    teacher = open_model(os.fspath(spec) if isinstance(spec, os.PathLike) else spec, device=device)
    if preprocessing is not None and teacher.preprocessing.as_dict() != preprocessing.as_dict():
        theirs, ours = teacher.preprocessing.as_dict(), preprocessing.as_dict()
        other = next(key for key in ours if theirs[key] != ours[key])
        raise InputError(f"teacher and student must see images alike: {other} is {theirs[other]} and {ours[other]}.")
    if class_names is not None and teacher.class_names is not None and tuple(class_names) != tuple(teacher.class_names):
        raise InputError("the teacher's classes are not those of the training data, or in another order.")
    return teacher


def check_teacher(teacher: Model, inputs: np.ndarray, num_classes: int) -> None:
    """Run a teacher once to check its number of classes."""
    teacher(inputs)
    if teacher.head.num_classes != num_classes:
        raise InputError(f"the teacher knows {teacher.head.num_classes} classes, and the training data has {num_classes}.")


def taught_logits(teacher: Model, inputs: np.ndarray) -> np.ndarray:
    """(b, c) of a batch, which may be empty where its images cannot be read."""
    return teacher(inputs)[1] if len(inputs) else np.zeros((0, teacher.head.num_classes), np.float32)
