"""`hardsight verify`: is everything in a run as it was written? Next: files/verify.py."""

from __future__ import annotations

import typer

from hardsight.cli import argument, command


@command()
def verify(run: str = argument("RUN", "A run directory; or a .parquet, .npz, .safetensors or .html file.")) -> None:
    """Check the files of a run against their checksums.

    Lists files that are damaged, changed or missing; the exit code is 2 if there are any. Every file is read again.

    \b
    Example:
        hardsight verify hardsight-demo
    """
    from hardsight.files.verify import verify as read_again
    from hardsight.screen import keep_table, print_line, progress_bar

    with progress_bar("verifying") as progress:
        result = read_again(run, progress=progress)
    for name, reason in result.damaged.items():
        print_line(f"{name}: {reason}")
    for name, reason in result.unchecked.items():
        print_line(f"{name}: not checked: {reason}")
    files = len(result.sound) + len(result.damaged) + len(result.unchecked)
    facts = {"files": files, "sound": len(result.sound), "damaged": len(result.damaged), "unchecked": len(result.unchecked)}
    states = {"sound": dict.fromkeys(result.sound, ""), "damaged": result.damaged, "unchecked": result.unchecked}
    rows = [{"file": name, "state": state, "reason": why} for state, names in states.items() for name, why in names.items()]
    keep_table("files", rows)
    if result.damaged:
        print_line(f"{run}: {len(result.damaged)} of {files} files are damaged, changed or missing", **facts)
        raise typer.Exit(2)
    rest = f"; {len(result.unchecked)} could not be checked" if result.unchecked else ""
    print_line(f"{run}: {len(result.sound)} of {files} files agree with their checksums{rest}", **facts)
