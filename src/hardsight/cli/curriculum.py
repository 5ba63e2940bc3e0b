"""`hardsight curriculum`: in which order samples are trained on, and from which epoch. Next: subsets/curriculum.py."""

from __future__ import annotations

from hardsight.cli import argument, command, writes
from hardsight.subsets.settings import CurriculumSettings


@command(CurriculumSettings)
def curriculum(
    settings: CurriculumSettings,
    source: str = argument("RUN_OR_FILE", "A run directory, a snapshot (.npz, .npy, .parquet) or a table of scores."),
    output: str = writes(
        "File to write: .parquet, .csv or .json, with columns id, position, first_epoch and the score.", required=True
    ),
) -> None:
    """Order samples from easy to hard for training.

    Writes each sample's position and the epoch from which it is used.

    hardsight train --curriculum RUN:SCORE does the same while it trains; this command is for your own training loop.

    \b
    Example:
        hardsight curriculum teacher --by avh --epochs 20 -o curriculum.parquet
        hardsight train photos/ --model cifar_resnet20 --curriculum teacher:avh --epochs 20 -o student
    """
    from hardsight.render.showing import show
    from hardsight.screen import print_wrote
    from hardsight.subsets.curriculum import curriculum

    show(curriculum(source, output=output, settings=settings))
    print_wrote(output)
