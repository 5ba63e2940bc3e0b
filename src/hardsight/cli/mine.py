"""`hardsight mine`: hard negatives, semi-hard triplets and pairs by angle. Next: subsets/mine.py."""

from __future__ import annotations

from hardsight.cli import argument, command, writes
from hardsight.subsets.settings import MineSettings


@command(MineSettings)
def mine(
    settings: MineSettings,
    source: str = argument("RUN_OR_FILE", "A run directory, or a file with features and labels: .npz, .parquet, .csv."),
    output: str = writes("File to write: .parquet, .csv or .json. Default: print only."),
) -> None:
    """Mine hard triplets or pairs by angle.

    A triplet is an anchor, the farthest sample of its class, and a nearest sample of another class.

    \b
    Example:
        hardsight mine run -k 10 -o triplets.parquet
        hardsight mine features.npz --kind semihard --positive nearest -o triplets.parquet
        hardsight mine run --pairs -o pairs.parquet
        hardsight mine table.csv --features 'f*' --label species
    """
    from hardsight.render.showing import show
    from hardsight.screen import print_line, print_wrote, progress_bar
    from hardsight.subsets.mine import mine

    with progress_bar("mining") as progress:
        triplets = mine(source, output=output, settings=settings, progress=progress)
    show(triplets)
    if output is not None:
        print_wrote(output)
    else:
        print_line("nothing was written: give -o triplets.parquet")
