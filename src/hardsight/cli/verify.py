"""`hardsight verify`: is everything in a run as it was written?"""

from __future__ import annotations

import typer

from hardsight.cli import app


@app.command()
def verify(
    run: str = typer.Argument(..., metavar="RUN", help="A run directory; or a .parquet, .npz, .safetensors or .html file."),
) -> None:
    """Compare every file of RUN with its checksum, and name those that are damaged, changed or missing.

    Exit code 2 if there are any. All files are read again, whatever earlier commands found.

    \b
    Example:
        hardsight verify hardsight-demo
    """
    from hardsight.files.verifying import verify as read_again
    from hardsight.screen import printable, progress_bar

    with progress_bar("verifying") as progress:
        found = read_again(run, progress)
    for name, reason in found.damaged.items():
        print(printable(f"{name}: {reason}"))
    for name, reason in found.unchecked.items():
        print(printable(f"{name}: not checked: {reason}"))
    files = len(found.sound) + len(found.damaged) + len(found.unchecked)
    if found.damaged:
        print(printable(f"{run}: {len(found.damaged)} of {files} files are damaged, changed or missing"))
        raise typer.Exit(2)
    rest = f"; {len(found.unchecked)} could not be checked" if found.unchecked else ""
    print(printable(f"{run}: {len(found.sound)} of {files} files agree with their checksums{rest}"))
