"""Figures 4 and 9 to 14: norm, AVH, confidence and accuracy over the epochs, by people's frequency, by noise, by contrast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hardsight.dynamics import everyone
from hardsight.render import curves_figure
from hardsight_papers.avh.curve_claims import Watched, avh_claims, norm_claims, watched
from hardsight_papers.avh.trainings import STAGES, Network, WatchedTraining, by_frequency, on_digits, on_imagenet, train_each
from hardsight_papers.context import Context
from hardsight_papers.recipe import Outcome, Table, Value, claim, recipe
from hardsight_papers.verdicts import SHARE

NEEDS = "CIFAR-10 and CIFAR-10H; ImageNet at scale paper"
PAPER_STAGES = {"epochs": 90, "rate drops after": [30, 60], "rate": {"AlexNet, VGG-19": 0.01, "ResNet-50, DenseNet-121": 0.1}}


@recipe("avh/fig4", "Norm, AVH and accuracy over epochs by human selection frequency", printed=PAPER_STAGES, needs=NEEDS)
def figure_4(context: Context) -> Outcome:
    """A row per network: norm, AVH, accuracy, one line per level of hardness."""
    learn = "hardsight train DATA --model M --schedule step --schedule-options milestones=30,60 -o run"
    return _by_level(by_frequency(context), [learn, "hardsight dynamics run --human counts.npy"])


def _by_level(trainings: Sequence[WatchedTraining], commands: Sequence[str] = ()) -> Outcome:
    runs = watched(trainings)
    return Outcome(
        about=_about(runs),
        tables=[last_epoch(runs)],
        figures=_figures(runs, ("norm", "avh", "correct")),
        claims=[*norm_claims(runs), *avh_claims(runs)],
        commands=commands,
    )


@recipe("avh/fig9", "Model confidence over epochs by human selection frequency", needs=NEEDS)
def figure_9(context: Context) -> Outcome:
    """The trainings of Figure 4, their confidence."""
    runs = watched(by_frequency(context))
    return Outcome(
        about=_about(runs),
        figures=_figures(runs, ("confidence",)),
        claims=[
            claim(
                "AVH saturates while model confidence keeps improving (appendices C and E).",
                rule=f"From the middle of training to its end, mean confidence gains more than {100 * SHARE:.0f} % of its range, "
                f"and by more than {100 * SHARE:.0f} % of it more than the share of its own range that mean AVH moves.",
                holds=all(_later_share(run, "confidence") > SHARE + abs(_later_share(run, "avh")) for run in runs),
                post_hoc=True,
                found="; ".join(f"{run.training.network}: {_later_shares(run)}" for run in runs) + ".",
            )
        ],
    )


def _later_share(run: Watched, name: str) -> float:
    """Share of a curve's whole range that it covers in the second half, in the direction of learning."""
    curve = run.mean(name)
    change = curve[-1] - curve[len(curve) // 2]
    return float((change if name == "confidence" else -change) / (curve.max() - curve.min()))


def _later_shares(run: Watched) -> str:
    return f"confidence {100 * _later_share(run, 'confidence'):.0f} %, AVH {100 * _later_share(run, 'avh'):.0f} %"


@recipe("avh/fig10", "Norm, AVH and accuracy over epochs, averaged over all samples", needs=NEEDS)
def figure_10(context: Context) -> Outcome:
    """The trainings of Figure 4, without levels."""
    runs = watched(by_frequency(context))
    figures = _figures(runs, ("norm", "avh", "correct"), levels=False)
    return Outcome(about=_about(runs), tables=[last_epoch(runs)], figures=figures)


@recipe("avh/fig11", "Norm, AVH and accuracy over epochs by level of noise", printed={"levels": [0.4, 0.3, 0.2, 0.1, 0.0]})
def figure_11(context: Context) -> Outcome:
    """The watched images at five levels of uniform pixel noise."""
    return _degraded(context, "noise")


@recipe("avh/fig12", "Norm, AVH and accuracy over epochs by level of contrast", printed={"levels": [0.1, 0.2, 0.3, 0.6, 1.0]})
def figure_12(context: Context) -> Outcome:
    """The watched images at five levels of contrast."""
    return _degraded(context, "contrast")


def _degraded(context: Context, degradation: str) -> Outcome:
    return _by_level(on_imagenet(context, degradation) if context.scale == "paper" else on_digits(context, degradation))


@recipe("avh/fig13", "Norm and AVH over epochs on CIFAR-10", needs="CIFAR-10")
def figure_13(context: Context) -> Outcome:
    """CIFAR-10, or digits without it."""
    if context.scale == "paper":
        return _averages(_full(context, "cifar10_folder", CIFAR))
    return _averages(by_frequency(context))


@recipe("avh/fig14", "Norm and AVH over epochs on CIFAR-100", needs="CIFAR-100")
def figure_14(context: Context) -> Outcome:
    """CIFAR-100 where --data has it; other images have fewer classes and are not comparable."""
    if context.scale == "paper":
        return _averages(_full(context, "cifar100_folder", CIFAR))
    path = context.data.find("cifar100")
    if path is None:
        outcome = _averages(on_digits(context, "noise"))
        note = claim(
            "The observations of section 3 hold on CIFAR-100, too.",
            rule="Those of avh/fig4, on CIFAR-100.",
            holds=None,
            found="There is no cifar100.npz in --data; the curves are of digits.",
        )
        return replace(outcome, claims=[note])
    return _averages(_full(context, "cifar100", STAGES))


CIFAR_NETWORKS: tuple[Network, ...] = (  # the three that the captions name
    ("AlexNet for CIFAR", "hardsight_papers.networks:CifarAlexNet", False, {"lr": 0.01}),
    ("VGG-19 for CIFAR", "hardsight_papers.networks:cifar_vgg19", False, {"lr": 0.01}),
    ("ResNet-50", "torchvision:resnet50", True, {"lr": 0.1, "size": 32}),
)
CIFAR: dict[str, Any] = {
    **STAGES, "epochs": 90, "schedule_options": {"milestones": (30, 60), "gamma": 0.1}, "batch_size": 128,
    "augment": "crop=4,flip",
}  # fmt: skip


def _full(context: Context, name: str, settings: dict[str, Any]) -> list[WatchedTraining]:
    """Networks for 32 x 32 images on a data set with its own test split."""
    data = context.data.require(name, "this recipe")
    about = f"{data.name}, {settings['epochs']} epochs"
    return train_each(context, data, CIFAR_NETWORKS, settings, "test", lambda run: everyone(), about)


def _averages(trainings: Sequence[WatchedTraining]) -> Outcome:
    runs = watched(trainings)
    claims = [*norm_claims(runs)[:3], *avh_claims(runs)[:3]]
    return Outcome(_about(runs), [last_epoch(runs)], _figures(runs, ("norm", "avh"), levels=False), claims)


def last_epoch(runs: Sequence[Watched]) -> Table:
    """Where each network ends, by level."""
    rows: list[list[Value]] = []
    for run in runs:
        levels = run.levels
        for group in levels.present():
            last = {name: float(levels.mean[name][group][-1]) for name in ("norm", "avh", "confidence")}
            correct = f"{100 * levels.mean['correct'][group][-1]:.1f} %"
            count = int(levels.count[group].max())
            rows.append([run.training.network, levels.groups.names[group], count, *last.values(), correct])
    header = ("network", runs[0].levels.groups.name, "samples", "norm", "AVH", "confidence", "accuracy")
    return Table("After the last epoch", header, rows, words=2, digits=4)


def _figures(runs: Sequence[Watched], columns: Sequence[str], *, levels: bool = True) -> dict[str, Any]:
    """By network: a line per level of hardness, or one for all samples."""
    names = [run.training.network for run in runs]
    return {n: curves_figure(run.levels if levels else run.whole, columns, title=n) for n, run in zip(names, runs, strict=True)}


def _about(runs: Sequence[Watched]) -> str:
    drops = " and ".join(str(epoch) for epoch in runs[0].training.drops)
    networks = ", ".join(run.training.network for run in runs)
    learned = ", ".join(f"{100 * run.training.learned:.0f} %" for run in runs)
    rate = f"the rate falls tenfold after epochs {drops}"
    return f"{runs[0].training.about}. {networks}; {rate}; {learned} of their training images are right at the end."
