"""Scores of other libraries, if installed, by name; high means hard.

cleanlab      rankings of labels from out-of-sample probabilities; outliers from features and from probabilities; near duplicates
aum           the authors' area under the margin, on the margins recorded by our training
datagnosis    the methods of H-CAT; each trains its own network
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from benchmarks.pictures import ImageSet, open_network
from hardsight.models import import_torchvision

RANKINGS = ("self_confidence", "normalized_margin", "confidence_weighted_entropy")  # of cleanlab.rank
PLUGINS = (
    "aum", "data_iq", "data_maps", "el2n", "forgetting", "grand", "large_loss", "prototypicality", "vog", "conf_agree",
    "confident_learning",
)  # fmt: skip
LIBRARIES = ("cleanlab", "datasets", "aum", "datagnosis")  # cleanlab's Datalab needs datasets

Scores = dict[str, np.ndarray]


def installed() -> list[str]:
    """The installed libraries."""
    return [name for name in LIBRARIES if importlib.util.find_spec(name) is not None]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppress the output and warnings of other libraries."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def label_rankings(probs: np.ndarray, labels: np.ndarray) -> Scores:
    """cleanlab's rankings of (n, c) out-of-sample probabilities and (n,) given labels.

    `find_label_issues` returns some samples, ordered by self-confidence; all others follow, in the same order.
    """
    if "cleanlab" not in installed():
        return {}
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    with quiet():
        scores = {f"cleanlab {method}": 1 - get_label_quality_scores(labels, probs, method=method) for method in RANKINGS}
        issue = find_label_issues(labels, probs, n_jobs=1)  # (n,) bool
    scores["cleanlab find_label_issues"] = issue + scores["cleanlab self_confidence"]
    return scores


def outliers(features: np.ndarray, probs: np.ndarray, reference: tuple[np.ndarray, np.ndarray, np.ndarray]) -> Scores:
    """cleanlab's outlier scores of (n, d) features and (n, c) probabilities, fitted to those of a labeled reference."""
    if "cleanlab" not in installed():
        return {}
    from cleanlab.outlier import OutOfDistribution

    their_features, their_probs, their_labels = reference
    with quiet():
        by_features, by_probs = OutOfDistribution(), OutOfDistribution()
        by_features.fit(features=their_features, verbose=False)
        by_probs.fit(pred_probs=their_probs, labels=their_labels, verbose=False)
        return {
            "cleanlab outlier (features)": 1 - by_features.score(features=features),
            "cleanlab outlier (probabilities)": 1 - by_probs.score(pred_probs=probs),
        }


def near_duplicates(features: np.ndarray) -> Scores:
    """Datalab's near-duplicate score of (n, d) features."""
    if not {"cleanlab", "datasets"} <= set(installed()):
        return {}
    from cleanlab import Datalab

    with quiet():
        lab = Datalab({"row": list(range(len(features)))}, verbosity=0)
        lab.find_issues(features=features, issue_types={"near_duplicate": {}})
        return {"cleanlab near_duplicate": 1 - lab.get_issues("near_duplicate")["near_duplicate_score"].to_numpy()}


def area_under_margin(run: Path, num_samples: int) -> Scores:
    """AUM from its authors' package, on the margins of a run of n samples whose ids are row numbers."""
    if "aum" not in installed():
        return {}
    import torch
    from aum import AUMCalculator

    with tempfile.TemporaryDirectory() as folder:
        calculator = AUMCalculator(folder, compressed=True)
        for path in sorted((run / "dynamics").glob("epoch=*.parquet")):
            table = pq.read_table(path, columns=["id", "logit_margin"], filters=[("split", "==", "train")])
            margin = torch.tensor(table.column("logit_margin").to_numpy(), dtype=torch.float64)
            logits = torch.stack([margin, torch.zeros_like(margin)], 1)  # (b, 2): the margin of class 0 is the recorded one
            calculator.update(logits, torch.zeros(len(margin), dtype=torch.int64), list(map(int, table.column("id").to_pylist())))
    mean = [calculator.sums[row] / calculator.counts[row] for row in range(num_samples)]
    return {"aum package": -np.array(mean)}


def datagnosis(pictures: ImageSet, labels: np.ndarray) -> tuple[Scores, list[str]]:
    """The methods of datagnosis on all images with these labels, and a note for each that fails."""
    if "datagnosis" not in installed():
        return {}, []
    import_torchvision()  # datagnosis imports it, which needs help beside a torch without CUDA
    from datagnosis.plugins import Plugins
    from datagnosis.plugins.core.datahandler import DataHandler
    from loguru import logger

    logger.disable("datagnosis")  # each plugin that this torch cannot load is reported again and again

    scores: Scores = {}
    notes = []
    for name in PLUGINS:
        try:
            with quiet(), tempfile.TemporaryDirectory() as folder:
                handler = DataHandler(pictures.inputs(pictures.images), labels, batch_size=pictures.recipe.batch_size)
                plugin = Plugins(["generic"]).get(name, **_training(pictures))
                plugin.fit(datahandler=handler, use_caches_if_exist=False, workspace=Path(folder))
            scores |= _of_plugin(name, plugin.scores, plugin.hard_direction())
        except Exception as error:  # if one fails, measure the others anyway
            notes.append(f"datagnosis {name}: {type(error).__name__}: {str(error).partition(chr(10))[0]}")
    return scores, notes


def _training(pictures: ImageSet) -> dict[str, object]:
    """The arguments of a datagnosis plugin: the same network for as many epochs."""
    import torch

    torch.manual_seed(0)
    model, lr = open_network(pictures.recipe.network, num_classes=pictures.num_classes), pictures.recipe.lr
    return {
        "model": model,
        "criterion": torch.nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=lr),
        "lr": lr,
        "epochs": pictures.epochs,
        "num_classes": pictures.num_classes,
        "device": torch.device("cpu"),
    }


def _of_plugin(name: str, scores: object, hard: str) -> Scores:
    """A single score, or a confidence (low on hard samples) and an uncertainty (high on them)."""
    if isinstance(scores, tuple):
        confidence, uncertainty = (np.asarray(part, dtype=np.float64) for part in scores)
        return {f"datagnosis {name} confidence": -confidence, f"datagnosis {name} uncertainty": uncertainty}
    values = np.asarray(scores, dtype=np.float64)
    return {f"datagnosis {name}": values if hard == "high" else -values}
