"""Which samples of several domains are trained on, held out of training, and never seen."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from hardsight.training.inputs import Inputs
from hardsight.training.network import as_tensor

if TYPE_CHECKING:
    from hardsight.domains.generalization.lists import OfficialLists

SPLIT = 1  # stream of random numbers


@dataclass(frozen=True, eq=False)
class Fold:
    """What one training sees.

    Attributes:
        inputs: all samples.
        domains: (n,) domain of each, counted from 0.
        train, held_out, unseen: (m,) rows.
    """

    inputs: Inputs
    domains: np.ndarray
    train: np.ndarray
    held_out: np.ndarray
    unseen: np.ndarray

    @cached_property
    def training_domains(self) -> np.ndarray:
        """Those trained on, in order."""
        return np.unique(self.domains[self.train])

    @cached_property
    def positions(self) -> np.ndarray:
        """(n,) which training sample each row is."""
        positions = np.full(len(self.domains), -1)
        positions[self.train] = np.arange(len(self.train))
        return positions

    def known(self, rows: np.ndarray, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """(b,) of training rows: their labels, which training samples they are, and their domains, counted from 0."""
        domains = np.searchsorted(self.training_domains, self.domains[rows])
        known = (self.inputs.labels[rows], self.positions[rows], domains)
        labels, positions, numbers = (as_tensor(values, device) for values in known)
        return labels, positions, numbers


@dataclass(frozen=True, eq=False)
class Division:
    """How each domain is divided into samples to train on and samples to hold out.

    Attributes:
        domains: (n,) domain of each sample, counted from 0.
        labels: (n,) samples without a label (-1) play no part.
        share: held out of each training domain, drawn by the seed.
        lists: official lists, which say it instead where they hold anything out.
    """

    domains: np.ndarray
    labels: np.ndarray
    share: float
    lists: OfficialLists | None = None

    def fold(self, inputs: Inputs, unseen: int, left: list[int], seed: int) -> Fold:
        """Train on the domains `left`; `unseen` is tested on."""
        divided = [self._divided(i, seed) for i in left]
        train, held_out = (np.concatenate(parts) for parts in zip(*divided, strict=True))
        tested = self._rows(unseen)
        if self.lists is not None:
            tested = tested[self.lists.test[tested]]
        return Fold(inputs, self.domains, train, held_out, tested)

    def num_train(self, left: list[int]) -> int:
        """How many samples there are to train on, whatever the seed."""
        return sum(len(self._divided(i, 0)[0]) for i in left)

    def _rows(self, domain: int) -> np.ndarray:
        return np.flatnonzero((self.domains == domain) & (self.labels >= 0))

    def _divided(self, domain: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows of one domain to train on, and those held out."""
        rows = self._rows(domain)
        if self.lists is not None:
            held_out, rows = rows[self.lists.held_out[rows]], rows[self.lists.train[rows]]
            if len(held_out):
                return rows, held_out
        order = np.random.default_rng([seed, SPLIT, domain]).permutation(rows)
        count = max(1, round(self.share * len(rows)))
        return np.sort(order[count:]), np.sort(order[:count])
