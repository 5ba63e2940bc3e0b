"""Section 2 and the slides' discussion: is AVH connected to aleatoric uncertainty, and more than to epistemic uncertainty?

Twenty passes with dropout left on split the entropy of the mean prediction (Gal and Ghahramani, ICML 2016): the mean entropy of
a pass is aleatoric, what the passes disagree about is epistemic.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import hardsight
from hardsight import Snapshot
from hardsight.data import open_data
from hardsight.stats import answer_entropy, bootstrap, pass_scores, spearman
from hardsight_papers.avh.panels import DIGITS, NOISE, cifar_snapshot, cifar_with_people, scored
from hardsight_papers.context import Context
from hardsight_papers.drawing import panels, seed_dots
from hardsight_papers.recipe import Claim, Outcome, Table, Value, claim, recipe
from hardsight_papers.seed_statistics import SEEDS, ahead, difference, interval, seeds, signed
from hardsight_papers.verdicts import CORRELATION, DIFFERENCE, Effect

PASSES, DROPOUT = 20, 0.3
SCORES = {"avh": "AVH", "avc_predicted": "AVC of the predicted class", "confidence": "model confidence", "norm": "norm"}
PARTS = {"passes_aleatoric": "aleatoric", "passes_information": "epistemic", "passes_entropy": "both"}
REPLICATES = 500  # of the bootstrap over CIFAR-10's images


@recipe("slides/uncertainty", "AVH against aleatoric and epistemic uncertainty", needs="CIFAR-10H")
def uncertainty(context: Context) -> Outcome:
    """Spearman of every score with both parts of the uncertainty of MC dropout, over trainings."""
    by_seed = [_coefficients(_dropout_table(context, seed)) for seed in seeds(context)]
    rho = {key: np.array([each[key] for each in by_seed]) for key in by_seed[0]}  # (score, part) -> (seeds,)
    rows: list[list[Value]] = []
    for score, words in SCORES.items():
        more = difference(rho[score, "passes_aleatoric"], rho[score, "passes_information"])
        rows.append([words, *(interval(rho[score, part], 3) for part in PARTS), signed(more, 3)])
    rows.append(["aleatoric part itself", None, interval(rho["passes_aleatoric", "passes_information"], 3), None, None])
    header = ("score, turned so that high is hard", *PARTS.values(), "aleatoric - epistemic")
    people, claims = _with_people(context)
    return Outcome(
        about=f"1,438 digits train a small CNN with dropout of {DROPOUT} before both of its last layers, {SEEDS} times; 359 "
        f"held-out digits at five levels of noise are seen once, mirrored, and {PASSES} times with dropout left on. Spearman's "
        f"coefficients; intervals of 95 % over seeds.{' ' + people if people else ''}",
        tables=[Table("Spearman of scores with the parts of uncertainty", header, rows)],
        figures={"AVH against both parts of uncertainty": _figure(rho)},
        claims=[*_claims(rho), *claims],
        commands=[
            f"hardsight extract trained digits:test -o run --degrade {NOISE} --passes flip,dropout={PASSES}",
            "hardsight correlate run --passes run/passes --against passes_aleatoric",
        ],
    )


def _dropout_table(context: Context, seed: int) -> pa.Table:
    """Scores of the held-out digits and the uncertainty of the passes over them."""
    train, test = open_data("digits:train"), open_data("digits:test")
    trained = context.train(train, "DigitsCNN", model_options={"dropout": DROPOUT}, seed=seed, snapshot=False, **DIGITS)
    snapshot = context.extract(trained.run, test, degradations=(NOISE,), passes=("flip", f"dropout={PASSES}"))
    views = sorted((Path(str(snapshot.name)) / "passes").glob("dropout-*"))
    table = scored(context, snapshot, tuple(name for name in SCORES if name != "norm"))
    for name, column in pass_scores(np.stack([_probs(Snapshot.load(view)) for view in views])).items():
        table = table.append_column(name, [column])
    return table


def _coefficients(table: pa.Table) -> dict[tuple[str, str], float]:
    """Spearman of every score with every part; scores turned so that high is hard."""
    low = [name for name in SCORES if hardsight.SCORES[name].hard == "low"]
    values = {name: table[name].to_numpy() * (-1 if name in low else 1) for name in (*SCORES, *PARTS)}
    names = (*SCORES, "passes_aleatoric")
    return {(score, part): spearman(values[score], values[part]) for score in names for part in PARTS}


def _claims(rho: dict[tuple[str, str], np.ndarray]) -> list[Claim]:
    together = rho["passes_aleatoric", "passes_information"].mean()
    aleatoric, information = (rho["avh", part] for part in ("passes_aleatoric", "passes_information"))
    first, second = "AVH is connected to aleatoric uncertainty", " more than to epistemic uncertainty."
    alone = "The 95 % interval over seeds of Spearman's coefficient of AVH and the aleatoric part lies above 0."
    both = "The 95 % interval over seeds of the difference of the two coefficients lies above 0."
    also = f"; the two parts go together, too, with {together:.3f}"
    return [
        ahead(f"{first}.", aleatoric, rule=alone, smallest=CORRELATION, unit=""),
        ahead(first + second, aleatoric, information, rule=both, smallest=DIFFERENCE, unit="", also=also),
    ]


def _with_people(context: Context) -> tuple[str, list[Claim]]:
    """With CIFAR-10H, people's disagreement is the aleatoric part, and what two networks disagree about the epistemic one."""
    if not context.data.has("cifar10", "cifar10_people", "cifar10_resnet20", "cifar10_resnet32"):
        return "", []
    networks = [cifar_snapshot(context, depth) for depth in (20, 32)]
    table = scored(context, networks[0])
    counts = cifar_with_people(context)[1][[int(id) for id in table["id"].to_pylist()]]
    people = answer_entropy(counts)
    networks_disagree = pass_scores(np.stack([_probs(snapshot) for snapshot in networks]))["passes_information"]
    avh = table["avh"].to_numpy()
    values = [spearman(avh, part) for part in (people, networks_disagree)]
    draws = bootstrap(np.stack([people, networks_disagree], axis=1), avh, replicates=REPLICATES, seed=context.seed)
    low, high = draws.difference("spearman", 0, 1)
    return "With CIFAR-10H: ResNet-20, people's entropy, and the mutual information of ResNet-20 and ResNet-32.", [
        claim(
            "AVH is connected to aleatoric uncertainty more than to epistemic uncertainty. CIFAR-10H.",
            rule="Spearman of AVH with the entropy of people's answers minus that with the mutual information of two networks: "
            "the 95 % bootstrap interval over images lies above 0.",
            effects=[Effect(values[0] - values[1], low, high, DIFFERENCE, n=len(avh), unit="images")],
            found=f"People {values[0]:+.3f}, networks {values[1]:+.3f}: {values[0] - values[1]:+.3f} [{low:+.3f}, {high:+.3f}].",
        )
    ]


def _probs(snapshot: Snapshot) -> np.ndarray:
    from scipy.special import softmax

    assert snapshot.head is not None
    return np.asarray(softmax(np.asarray(snapshot.head.logits(snapshot.in_memory().values), np.float32), axis=1))


def _figure(rho: dict[tuple[str, str], np.ndarray]) -> Any:
    figure, axes = panels(2)
    for each, part in zip(axes, ("passes_aleatoric", "passes_information"), strict=True):
        seed_dots(each, {words: rho[score, part] for score, words in SCORES.items()}, "Spearman", PARTS[part])
        each.set_xlim(min(x.min() for x in rho.values()) - 0.05, 1)  # the same for both, to be compared
    return figure
