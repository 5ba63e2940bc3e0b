"""Dawid and Skene (1979): what was probably meant, when some raters are more careful than others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

ROUNDS, SMALL_CHANGE = 1000, 1e-10  # most rounds of EM; the change of the log-likelihood per vote that ends them
TINY = 1e-10  # a probability that stands for 0


@dataclass(frozen=True)
class RatedItems:
    """The true answer of each item, and how each rater errs."""

    posterior: np.ndarray  # (items, k) probability of each answer
    confusion: np.ndarray  # (raters, k, k) probability of a vote, given the true answer
    prior: np.ndarray  # (k,)


def dawid_skene(item: np.ndarray, rater: np.ndarray, vote: np.ndarray, k: int) -> RatedItems:
    """EM over the confusions of raters, from the shares of votes.

    Args:
        item, rater, vote: (v,) one entry per vote, numbered from 0.
        k: number of answers.

    Example:
        >>> item, rater = np.repeat([0, 1, 2], 3), np.tile([0, 1, 2], 3)
        >>> votes = np.array([1, 1, 0, 0, 0, 1, 1, 1, 0])  # the third rater always disagrees
        >>> dawid_skene(item, rater, votes, 2).posterior[:, 1].round(2)
        array([1., 0., 1.])
    """
    n, r = int(item.max()) + 1, int(rater.max()) + 1
    posterior = np.zeros((n, k))
    np.add.at(posterior, (item, vote), 1.0)
    posterior /= posterior.sum(1, keepdims=True)
    before = -np.inf
    for _ in range(ROUNDS):
        prior = posterior.mean(0)  # (k,)
        confusion = np.zeros((r, k, k))  # of a rater: [vote, truth], then normalized over votes
        np.add.at(confusion, (rater, vote), posterior[item])
        confusion /= np.maximum(confusion.sum(1, keepdims=True), TINY)
        joint = np.tile(np.log(prior + TINY), (n, 1))  # (n, k)
        np.add.at(joint, item, np.log(confusion[rater, vote] + TINY))
        top = joint.max(1, keepdims=True)
        total = np.exp(joint - top).sum(1, keepdims=True)
        posterior = np.exp(joint - top) / total
        likelihood = float((top + np.log(total)).sum()) / len(vote)
        if likelihood - before < SMALL_CHANGE:
            break
        before = likelihood
    return RatedItems(posterior, confusion.transpose(0, 2, 1), prior)
