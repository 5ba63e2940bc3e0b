"""DRM's second half: the heads of the training domains keep learning while samples of an unseen domain arrive.

Each batch is predicted first and learned from afterwards, without its labels:

    p = sum_i v_i p_i                             the vote of the heads, as in student.py
    S = { x : max_k p_k(x) >= confidence }        the samples it is sure of; k(x) is the class of each
    head_i <- head_i - rate * gradient of mean_S -log p_i,k(x)        for every head i

Features stay as they are, and so do the student's heads: copies learn, from the first batch of a domain to its last.

The authors' code takes a softmax of p, which is a probability already, before it compares: of seven classes no sample then
reaches 0.32. Here p itself is compared. (Zhang et al., KDD 2023.)
"""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import Tensor

from hardsight.domains.generalization.settings import GeneralizeSettings
from hardsight.domains.generalization.student import Student, head_logits, voted


class ArrivingHeads:
    """Inputs of an unseen domain in, in the order of their arrival; probabilities out. It learns from each batch.

    Args:
        student: with a head per training domain; it is not changed.
        settings: confidence, learning rate and steps.
    """

    def __init__(self, student: Student, settings: GeneralizeSettings) -> None:
        self.student, self.settings = student, settings
        self.heads = copy.deepcopy(student.own)
        self.optimizer = torch.optim.SGD(self.heads.parameters(), lr=settings.learning_rate * settings.tta_rate)

    def __call__(self, inputs: Tensor) -> Tensor:
        """(b, ...) -> (b, c)."""
        with torch.no_grad():
            features = self.student.features(inputs)  # (b, d)
            probabilities = self._vote(head_logits(self.heads, features))
        for _ in range(self.settings.tta_steps):
            self._learn(features)
        return probabilities

    def _vote(self, logits: Tensor) -> Tensor:
        """(heads, b, c) -> (b, c)."""
        return voted(torch.softmax(logits, 2), self.student.gamma)

    @torch.enable_grad()
    def _learn(self, features: Tensor) -> None:
        """One step of each head on the samples that all of them together are sure of."""
        logits = head_logits(self.heads, features)  # (heads, b, c)
        confidence, labels = self._vote(logits.detach()).max(1)  # (b,) each
        sure = confidence >= self.settings.tta_confidence
        if not sure.any():
            return
        loss = sum(F.cross_entropy(own[sure], labels[sure]) for own in logits)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[union-attr]  # there are at least two heads
        self.optimizer.step()
