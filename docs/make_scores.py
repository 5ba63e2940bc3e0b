"""Write docs/scores.md from the registry: python docs/make_scores.py > docs/scores.md"""

from __future__ import annotations

import inspect
import sys
from itertools import groupby

from hardsight.scores import SCORES, Score
from hardsight.scores.terms import NONFINITE, NONFINITE_LOGIT, OK, ZERO
from hardsight.scoring.job import ALL_PI, ALL_ZERO, MISSING, NO_LABEL, NONFINITE_PROBABILITY

TITLES = {
    "angular": "Angles",
    "confidences": "Confidence",
    "detectors": "Atypical inputs",
    "dynamics": "Dynamics",
    "ensembles": "Several models or checkpoints",
    "labeled_reference": "Classes of a reference",
    "likelihood": "Likelihood",
    "neighbors": "Neighbors",
    "within_dataset": "Within the dataset",
}

INPUT = {  # what is sufficient for the scores of a scope
    "dynamics": "a run with dynamics",
    "models": "snapshots of several models",
    "layers": "a run of `extract --layers`",
    "checkpoints": "a run of `train --keep-epochs`, and its images",
}

STATUSES = {
    OK: "every score was computed",
    NO_LABEL: "no label: scores that need one are null, the others are computed",
    ZERO: "the feature is all zeros (Gaussian head: at the mean of the class means) and has no direction: all scores are null",
    NONFINITE: "the feature contains a NaN or an infinity: all scores are null",
    NONFINITE_LOGIT: "a logit is not finite: all scores are null",
    NONFINITE_PROBABILITY: "a probability is not finite: all scores are null",
    MISSING: "the row of a Parquet file has no feature: all scores are null",
    ALL_ZERO: "every angle is 0, so AVH is 0/0: `avh` and `avh_relative` are null, the others are computed",
    ALL_PI: "every angle is pi, so AVC is 0/0: `avc_label` and `avc_predicted` are null, the others are computed",
}

HEAD = """\
# Scores

<!-- Made by docs/make_scores.py from the registry. Change the docstrings, then run it again. -->

Each score is one number per sample: a function (`hardsight.scores.avh`), a column of the scores table (`avh`) and an
entry of the registry (`hardsight.SCORES["avh"]`), under the same name. [which-score.md](which-score.md) says which to use.

```python
from hardsight import SCORES

for score in SCORES.values():
    print(score.name, score.hard, score.scope, score.range)
```

## All scores

| score | hard end | scope | label | input |
|---|---|---|---|---|
{index}

- **hard end**: which end of the range is hard. `table.hardest()` and `--by` follow it.
- **scope**: what one value depends on. *row*: one sample and the head; *by name* means that it is not in the table unless
  asked for, by name or with `all`. *dataset*: all samples, in a second pass; not for a single shard. *dynamics*: the epochs of a
  training run ([dynamics.md](dynamics.md)). *reference*: another snapshot, what the model was trained on (`--reference TRAIN`).
  *models*, *layers*, *checkpoints*: `--models RUN2,RUN3`, `extract --layers`, `train --keep-epochs`. All but *row* are asked for
  like those *by name*.
- **label**: whether the row needs one. *Not its own*: other rows need one.
- **input**: what is sufficient.

In the formulas x is a feature (d numbers), w_k the class vector of class k (a row of `weight`), y the given class,
p_k the softmax probability and z_k the logit of class k, c the number of classes, e an epoch or the number of epochs; k after a
name is a number it can carry: `--scores avh_nearest:10,knn_distance:100`. Angles are in radians. With a Gaussian head, they are
taken around the mean of the class means; norms and neighbors are taken from zero.

## Status, and rows without a label

No row is dropped, and no small number is added to hide a zero vector. A score that cannot be computed is null (NaN from the
functions), and `status` says why. `--strict` (`strict=True`) turns such a row into an error.

| status | meaning |
|---|---|
{statuses}

A label of -1 or null means unlabeled. Null scores are never ranked.

## Near duplicates

`hardsight.scores.near_duplicates` finds, for every row, the nearest other row by direction and its distance, and the
groups of rows that are nearly the same; with a second set of features, what has leaked from it. The search is exact.

```python
import numpy as np
from hardsight.scores import near_duplicates

features = np.array([[1.0, 0.0], [0.0, 1.0], [3.0, 0.0]])
found = near_duplicates(features, threshold=0.01)
print(found.nearest, found.distance, found.group)
```
"""

ENTRY = """\
### {name}

{meaning}

`{formula}`, range {range}. Source: {source}.
"""

SOURCES = """\
## Sources

- Chen, Liu, Yu, Kautz, Shrivastava, Garg, Anandkumar: Angular Visual Hardness. ICML 2020, arXiv:1912.02279.
- Peng, Islam, Tu: Angular Gap. ACM MM 2022, arXiv:2207.08525.
- Paul, Ganguli, Dziugaite: Deep Learning on a Data Diet. NeurIPS 2021, arXiv:2107.07075.
- Pleiss, Zhang, Elenberg, Weinberger: Identifying Mislabeled Data using the Area Under the Margin Ranking. NeurIPS 2020,
  arXiv:2001.10528.
- Toneva, Sordoni, Tachet des Combes, Trischler, Bengio, Gordon: An Empirical Study of Example Forgetting during Deep
  Neural Network Learning. ICLR 2019, arXiv:1812.05159.
- Swayamdipta, Schwartz, Lourie, Wang, Hajishirzi, Smith, Choi: Dataset Cartography. EMNLP 2020, arXiv:2009.10795.
- Zhu, Ying, Yang: Label Distributionally Robust Losses for Multi-class Classification: Consistency, Robustness and
  Adaptivity. ICML 2023, arXiv:2112.14869.
- Wan, Zhong, Li, Chen: Rethinking Feature Distribution for Loss Functions in Image Classification. CVPR 2018,
  arXiv:1803.02988.
- Liu, Wang, Owens, Li: Energy-based Out-of-distribution Detection. NeurIPS 2020, arXiv:2010.03759.
- Liu, Lochman, Zach: GEN: Pushing the Limits of Softmax-Based Out-of-Distribution Detection. CVPR 2023.
- Ren, Fort, Liu, Roy, Padhy, Lakshminarayanan: A Simple Fix to Mahalanobis Distance for Improving Near-OOD Detection. 2021,
  arXiv:2106.09022.
- Sun, Ming, Zhu, Li: Out-of-Distribution Detection with Deep Nearest Neighbors. ICML 2022, arXiv:2204.06507.
- Wang, Li, Feng, Zhang: ViM: Out-Of-Distribution with Virtual-logit Matching. CVPR 2022, arXiv:2203.10807.
- Yang, Rahardja, Fränti: Mean-shift outlier detection and filtering. Pattern Recognition 115, 2021.
- Seedat, Crabbé, Bica, van der Schaar: Data-IQ: Characterizing subgroups with heterogeneous outcomes in tabular data. NeurIPS
  2022, arXiv:2210.13043.
- Sorscher, Geirhos, Shekhar, Ganguli, Morcos: Beyond neural scaling laws: beating power law scaling via data pruning. NeurIPS
  2022, arXiv:2206.14486.
- Carlini, Erlingsson, Papernot: Distribution Density, Tails, and Outliers in Machine Learning. 2019, arXiv:1910.13427.
- Baldock, Maennel, Neyshabur: Deep Learning Through the Lens of Example Difficulty. NeurIPS 2021, arXiv:2106.09647.
- Agarwal, D'souza, Hooker: Estimating Example Difficulty Using Variance of Gradients. CVPR 2022, arXiv:2008.11600.

Several public implementations of these formulas differ from the papers. Here norms are computed per feature and per
class vector, not over a whole batch or matrix; the sum runs over classes only; and the nearest other class excludes the
given one, so it is correct even when all other cosines are negative.
"""


def page() -> str:
    statuses = "\n".join(f"| `{name}` | {meaning} |" for name, meaning in STATUSES.items())
    parts = [HEAD.format(statuses=statuses, index="\n".join(index_row(score) for score in SCORES.values()))]
    for module, scores in groupby(SCORES.values(), key=lambda score: score.function.__module__):
        intro = prose(inspect.getdoc(sys.modules[module]) or "").split("\n\n")[0]
        parts.append(f"## {TITLES[module.rpartition('.')[2]]}\n\n{intro}\n")
        parts += [entry(score) for score in scores]
    return "\n".join([*parts, SOURCES])


def index_row(score: Score) -> str:
    scope = "row, by name" if score.scope == "row" and not score.default else score.scope
    return f"| [`{score.name}`](#{score.name}) | {score.hard} | {scope} | {label(score)} | {enough(score)} |"


def entry(score: Score) -> str:
    meaning = prose(inspect.getdoc(score.function) or "")
    return ENTRY.format(name=score.name, meaning=meaning, formula=score.formula, range=score.range, source=score.source)


def label(score: Score) -> str:
    if score.labels:
        return "yes"
    return "not its own" if score.scope == "layers" or (score.fit is not None and score.fit(None).fits_labels) else "no"


def enough(score: Score) -> str:
    if score.scope in INPUT:
        return INPUT[score.scope]
    if score.scope == "reference":
        return f"{'features and head' if score.terms else 'features'}, and a reference"
    if score.needs_logits:
        return "features and head, or logits"
    if score.from_logits():
        return "features and head, or logits, or probs"
    return "features and head" if score.terms else "features"


def prose(docstring: str) -> str:
    """A docstring up to its Args, Returns or Example."""
    paragraphs = docstring.split("\n\n")
    kept = [text for text in paragraphs if not text.startswith(("Args:", "Returns:", "Example:"))]
    return "\n\n".join(kept)


if __name__ == "__main__":
    sys.stdout.write(page())
