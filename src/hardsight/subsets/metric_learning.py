"""The mining of `hardsight mine` inside a batch, as a miner that every loss of pytorch-metric-learning takes."""

from __future__ import annotations

from typing import Any

from hardsight.checks import check_count
from hardsight.errors import InputError, MissingExtra, require
from hardsight.subsets.settings import KINDS, POSITIVES

require("torch", extra="torch", purpose="hardsight.subsets.AngleMiner")
try:
    from pytorch_metric_learning.distances import CosineSimilarity
    from pytorch_metric_learning.miners import BaseMiner
except ImportError as error:
    raise MissingExtra("AngleMiner needs pytorch-metric-learning: pip install pytorch-metric-learning") from error

# ruff: noqa: E402
import torch
from torch import Tensor

from hardsight.losses.contract import check_positive
from hardsight.losses.cosine_softmax import cosines
from hardsight.losses.triplet import batch_triplets


class AngleMiner(BaseMiner):  # type: ignore[misc]  # it has no types
    """Hard or semi-hard triplets by angle: `loss(embeddings, labels, miner(embeddings, labels))`.

    Args:
        k: negatives per anchor.
        kind: "hard" (the nearest samples of other classes) or "semihard" (the nearest that are farther than the positive, by less
            than the margin).
        positive: of each anchor, the "farthest" or the "nearest" sample of its class.
        margin: of semi-hard negatives, in radians.
    """

    def __init__(
        self, k: int = 1, *, kind: str = "hard", positive: str = "farthest", margin: float = 0.2, **options: Any
    ) -> None:
        super().__init__(**options)
        if kind not in KINDS or positive not in POSITIVES:
            raise InputError(f"kind must be one of {', '.join(KINDS)}, and positive one of {', '.join(POSITIVES)}.")
        self.k, self.margin = check_count(k, "k", least=1), check_positive("margin", margin)
        self.kind, self.positive = kind, positive

    def mine(self, embeddings: Tensor, labels: Tensor, ref_emb: Tensor, ref_labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Anchors among the embeddings, positives and negatives among the reference."""
        cosine = cosines(embeddings, ref_emb)  # (q, m)
        if ref_emb is embeddings:
            cosine.fill_diagonal_(torch.nan)  # no sample is its own positive
        same = labels[:, None] == ref_labels
        if ref_emb is not embeddings:  # a memory of earlier batches may hold this one too
            i, j = torch.nonzero(same & (cosine > 0.999), as_tuple=True)
            itself = (embeddings[i] == ref_emb[j]).all(1)
            cosine[i[itself], j[itself]] = torch.nan
        farthest = self.positive == "farthest"
        kind: Any = self.kind
        return batch_triplets(cosine, same, kind=kind, k=self.k, farthest=farthest, margin=self.margin)

    def get_default_distance(self) -> CosineSimilarity:
        """Cosines: by angle, nothing else counts."""
        return CosineSimilarity()
