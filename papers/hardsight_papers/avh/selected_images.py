"""Figure 21: images that CBST+AVH selects and CBST does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hardsight.data import Degradation, degrade, open_data
from hardsight.domains import select_pseudo_labels
from hardsight_papers.avh.confusing import SHOWN, grid
from hardsight_papers.context import Context, fingerprint
from hardsight_papers.data_folder import DataFolder
from hardsight_papers.recipe import Outcome, Table, Value, claim, recipe


@recipe("avh/fig21", "Images that AVH selects and softmax does not", needs="MNIST and USPS")
def figure_21(context: Context) -> Outcome:
    """Select a fifth by each rule; show what AVH alone selects and labels correctly."""
    about, target, snapshot = _target(context)
    rows, head = snapshot.in_memory(), snapshot.head
    options: dict[str, Any] = {"features": rows.values, "head": head, "portion": 0.2}
    chosen = {method: select_pseudo_labels(method=method, **options) for method in ("cbst", "cbst+avh")}
    only = chosen["cbst+avh"].kept & ~chosen["cbst"].kept
    right = chosen["cbst+avh"].labels == rows.labels
    row_of = {id: row for row, id in enumerate(target.ids)}
    nearest = np.asarray(head.logits(rows.values)).argsort(1)[:, -2]
    shown = np.flatnonzero(only & right)[:SHOWN]
    pictures = [(target.image(row_of[str(rows.ids[at])]), f"{rows.labels[at]}, could be {nearest[at]}") for at in shown]
    share = float(right[only].mean()) if only.any() else float("nan")
    counted: list[list[Value]] = [
        [name, int(each.kept.sum()), float((each.labels == rows.labels)[each.kept].mean())] for name, each in chosen.items()
    ]
    counted.append(["cbst+avh and not cbst", int(only.sum()), share])
    return Outcome(
        about=about,
        tables=[Table("Selected, at a portion of 0.2", ("rule", "samples", "right"), counted)],
        figures={"Selected and labeled correctly by AVH, not selected by softmax": grid([pictures])} if pictures else {},
        claims=[
            claim(
                "AVH selects and labels correctly images that softmax does not select.",
                rule="There are such images, and most of what AVH alone selects is labeled correctly.",
                holds=bool((only & right).any()) and share > 0.5,
                found=f"{int(only.sum())} images are selected by AVH alone, {100 * share:.0f} % of them labeled correctly.",
            )
        ],
    )


def _target(context: Context) -> tuple[str, Any, Any]:
    """A source model on a domain that it was not trained on: MNIST to USPS, or digits to faint digits."""

    written = context.handwriting(train=5000)
    if written.name == "MNIST" and context.data.has("usps"):
        trained = context.train(written.train, "lenet", epochs=3, batch_size=64, snapshot=False)
        usps = open_data(context.data.require("usps", "this recipe"))
        target = usps.take(np.flatnonzero(np.array(usps.columns["split"]) == "test"))
        about = "LeNet trained on 5,000 images of MNIST, USPS's test images as target."
        return about, target, context.extract(trained.run, target)
    digits = replace(context, scale="small", data=DataFolder(None))  # without MNIST
    written = digits.handwriting()
    settings = {"epochs": 10, "batch_size": 32, "optimizer": "adamw", "lr": 2e-3, "weight_decay": 0.0, "snapshot": False}
    trained = digits.train(written.train, "DigitsCNN", **settings)
    test = written.test
    pixels = np.stack([np.asarray(degrade(test.image(row), Degradation("contrast", 0.2), id)) for row, id in enumerate(test.ids)])
    key = {"digits": fingerprint(test), "contrast": 0.2}
    assert test.labels is not None
    arrays = dict(images=pixels, labels=test.labels, ids=np.array(test.ids), class_names=np.array(test.class_names))
    digits.cache.arrays("faint-digits", key, lambda: arrays)
    target = open_data(digits.cache.place("faint-digits", key).with_suffix(".npz"))
    about = "A small CNN trained on digits, held-out digits at a fifth of the contrast as target."
    return about, target, digits.extract(trained.run, target)
