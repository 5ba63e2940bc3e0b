"""Section 3.3: "AVH potentially presents a better measure towards the open set generalization", since it ignores the norm.

Three classes are left out of training. AVC, the confidence made of angles, needs no label: does it tell their images from known
ones better than the norm does?
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import hardsight
from hardsight.stats import Auroc, auroc
from hardsight_papers.avh.panels import DIGITS, scored
from hardsight_papers.context import Context
from hardsight_papers.drawing import seed_dots_figure
from hardsight_papers.recipe import Claim, Outcome, Table, Value, recipe
from hardsight_papers.seed_statistics import SEEDS, higher, interval, seeds

UNSEEN, MOST_TRAINED = 3, 5000
WORDS = {
    "avc_predicted": "AVC of the predicted class",
    "predicted_confidence": "softmax of the predicted class",
    "entropy": "entropy",
    "max_logit": "largest logit",
    "norm": "norm",
}


@recipe("slides/open-set", "Detecting images of unseen classes: AVC against norm", needs="MNIST")
def unseen_classes(context: Context) -> Outcome:
    """AUROC of each score that needs no label, over five choices of unseen classes."""
    written = context.handwriting(train=MOST_TRAINED, test=1000)
    model = written.lenet
    measured = [_areas(context, written.train, written.test, model, seed) for seed in seeds(context)]
    areas = {name: np.array([each[name].value for _, each in measured]) for name in WORDS}
    rows: list[list[Value]] = [
        [", ".join(map(str, digits)), *(f"{each[n].value:.3f} [{each[n].low:.3f}, {each[n].high:.3f}]" for n in WORDS)]
        for digits, each in measured
    ]
    rows.append(["mean", *(interval(areas[name], 3) for name in WORDS)])
    by_words = {words: areas[name] for name, words in WORDS.items()}
    return Outcome(
        about=f"{written.name}; {model} is trained on seven of ten classes, {DIGITS['epochs']} epochs, with {SEEDS} choices of "
        f"{UNSEEN} unseen ones; {len(written.test)} held-out images. DeLong's intervals of each choice, Student's over choices.",
        tables=[Table("AUROC: the chance that an unseen image looks harder", ("unseen", *WORDS.values()), rows)],
        figures={"AUROC by score": seed_dots_figure({"": by_words}, "AUROC of unseen against known", width=6.5)},
        claims=[
            _better(areas, "norm", "AVH (as AVC, without a label) tells unseen classes better than the norm."),
            _better(areas, "predicted_confidence", "AVH (as AVC) tells unseen classes better than softmax confidence."),
        ],
        commands=["hardsight correlate known --against level --unseen unseen"],
    )


def _areas(context: Context, train: Any, test: Any, model: str, seed: int) -> tuple[list[int], dict[str, Auroc]]:
    """The unseen classes, and AUROC of every score with its interval."""
    unseen = sorted(np.random.default_rng([context.seed, seed]).permutation(10)[:UNSEEN].tolist())
    trained = context.train(_known(train, unseen), model, seed=seed, snapshot=False, **DIGITS)
    known = context.extract(trained.run, _known(test, unseen))
    rows = np.flatnonzero(np.isin(test.labels, unseen))
    new = context.extract(trained.run, replace(test.take(rows), labels=None, class_names=None))
    names = tuple(name for name in WORDS if name != "norm")
    tables = [scored(context, snapshot, names) for snapshot in (known, new)]
    sign = {name: 1 if hardsight.SCORES[name].hard == "high" else -1 for name in WORDS}
    return unseen, {name: auroc(*(sign[name] * table[name].to_numpy() for table in tables)) for name in WORDS}  # high is hard


def _known(data: Any, unseen: list[int]) -> Any:
    """The images of the other classes, which are numbered from 0 on."""
    seen = [k for k in range(10) if k not in unseen]
    part = data.take(np.flatnonzero(np.isin(data.labels, seen)))
    return replace(part, labels=np.searchsorted(seen, part.labels), class_names=[str(k) for k in seen])


def _better(areas: dict[str, np.ndarray], other: str, sentence: str) -> Claim:
    rule = f"The 95 % interval over {SEEDS} choices of unseen classes of AUROC of AVC minus AUROC of the other lies above 0."
    return higher(sentence, areas["avc_predicted"], areas[other], rule=rule)
