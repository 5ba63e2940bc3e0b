"""`hardsight attack`: inputs moved so that a model errs, and what gives them away. Next: attacks/attack.py."""

from __future__ import annotations

from hardsight.attacks.settings import AttackSettings
from hardsight.cli import RUN_OUTPUT, argument, command


@command(AttackSettings, figures=True)
def attack(
    settings: AttackSettings,
    run: str = argument("RUN", "A run of hardsight train; of hardsight extract, with --model; or a model, with --data."),
    output: str = RUN_OUTPUT,
) -> None:
    """Attack a model with FGSM or PGD, and test their detection.

    Reports the error by epsilon, the scores of attacked inputs, and how well attacks are detected by them.

    \b
    Example:
        hardsight attack run -o attacked
        hardsight attack run --methods fgsm,pgd --epsilon 2/255,8/255 --limit 1000 -o attacked
        hardsight attack timm:resnet18 --weights resnet18.safetensors --data photos/ --epsilon 8/255 -o attacked
    """
    from hardsight.attacks.attack import attack as attack_run
    from hardsight.render.showing import show_lines
    from hardsight.screen import print_line, print_wrote, progress_bar

    with progress_bar("attacking") as progress:
        done = attack_run(run, output, settings=settings, progress=progress, say=print_line)
    show_lines(done.lines())
    print_wrote(output, ": attack.parquet, epsilons.parquet, detection.parquet, trajectories.parquet, figures/")
