"""`hardsight mine`: hard negatives, semi-hard triplets and pairs by angle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from hardsight.cli import command
from hardsight.subsets.settings import MineFileSettings

if TYPE_CHECKING:
    from hardsight.subsets.mine import Mined


@command(MineFileSettings)
def mine(
    settings: MineFileSettings,
    source: str = typer.Argument(
        ..., metavar="RUN_OR_FILE", help="A run directory, or a file with features and labels: .npz, .parquet, .csv."
    ),
    output: str = typer.Option(
        None, "-o", "--output", metavar="FILE", help="File to write: .parquet, .csv or .json. Default: print only."
    ),
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
    from hardsight.screen import print_line, print_wrote, progress_bar
    from hardsight.subsets.mine import mine_to_file

    with progress_bar("mining") as progress:
        mined = mine_to_file(source, output, settings=settings, progress=progress)
    print_mined(mined, settings)
    if output is not None:
        print_wrote(output)
    else:
        print_line("nothing was written: give -o triplets.parquet")


def print_mined(mined: Mined, settings: MineFileSettings) -> None:
    """What `hardsight mine` says on the screen: how many, who is left out, and the hardest."""
    import numpy as np

    from hardsight.screen import Cell, number, percent, print_line, print_table

    anchors = len(np.unique(mined.anchor))
    recall = "" if mined.recall is None else f", recall {percent(mined.recall, digits=1)} %"
    facts = {"triplets": len(mined), "anchors": anchors, "kind": settings.kind, "k": settings.k, "search": mined.search}
    print_line(
        f"{len(mined):,} {settings.kind} triplets of {anchors:,} anchors, k = {settings.k}   search: {mined.search}{recall}",
        recall=mined.recall,
        left_out=mined.left_out,
        **facts,
    )
    if settings.pairs:
        pairs = len(mined.pairs()[0])
        print_line(f"{pairs:,} distinct pairs of these triplets", pairs=pairs)
    left_out = [f"{count:,} {reason}" for reason, count in mined.left_out.items() if count]
    if left_out:
        print_line("no anchors: " + ", ".join(left_out))
    if len(mined):
        violated = float((mined.hardness > 0).mean())
        print_line(f"negative nearer than the positive: {percent(violated, digits=1)} % of the triplets", violated=violated)
    order = np.argsort(-mined.hardness, kind="stable")
    worst = order[np.unique(mined.anchor[order], return_index=True)[1]]  # the hardest of each anchor
    worst = worst[np.argsort(-mined.hardness[worst], kind="stable")][: settings.top]
    rows = [
        (
            *(number(mined.ids[int(column[at])].as_py()) for column in (mined.anchor, mined.positive, mined.negative)),
            *(number(float(np.rad2deg(angle[at]))) for angle in (mined.angle_positive, mined.angle_negative)),
        )
        for at in worst
    ]
    if rows:
        header = ("anchor", "positive", "negative", "degrees to positive", Cell("to negative", "degrees_to_negative"))
        print_table(header, rows, title=f"hardest {len(rows)} anchors", words=3, name="hardest")
