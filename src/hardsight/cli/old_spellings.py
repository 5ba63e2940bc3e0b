"""Old spellings of options: still accepted, with a note on standard error that says how it is written now."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

OF_IMAGES = {"--labels-from": "--labels", "--head": "--head-layer"}  # --head FILE is a head in a file, everywhere
OLD: dict[str, dict[str, str]] = {  # command: old spelling -> new one
    "extract": OF_IMAGES,
    "train": {"--labels-from": "--labels"},
    "attack": {**OF_IMAGES, "--method": "--methods"},
    "adapt": {"--method": "--methods"},
    "generalize": {"--loss": "--losses"},
    "correlate": {"--by": "--group", "--epochs": "--each-epoch"},
    "dynamics": {"--by": "--group"},
}


def renewed(words: Sequence[str]) -> list[str]:
    """The words of a command line with every old spelling replaced.

    Example:
        >>> renewed(["adapt", "a.npz", "--methods", "cbst"])
        ['adapt', 'a.npz', '--methods', 'cbst']
    """
    command = next((word for word in words if not word.startswith("-")), "")
    return list(_renewed(words, command, OLD.get(command, {})))


def _renewed(words: Sequence[str], command: str, old: dict[str, str]) -> Iterator[str]:
    for place, word in enumerate(words):
        if word == "--":  # what follows are no options
            yield from words[place:]
            return
        name, equals, value = word.partition("=")
        if name in old:
            print(f"note: {name} of hardsight {command} is now {old[name]}", file=sys.stderr)
            word = f"{old[name]}{equals}{value}"
        yield word
