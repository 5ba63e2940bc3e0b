"""Our speed against the limit and other libraries, and what every score finds, each in one run."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from functools import partial
from inspect import getdoc, signature
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

from benchmarks.timing import report
from hardsight import HardsightError

BENCHMARKS = {  # each is a module with a function `run`, whose parameters are the options
    "score": "scoring, against the bare product features @ weight.T",
    "extract": "images per second, against a bare DataLoader loop",
    "cluster": "a Dask cluster of two workers, against two bare processes",
    "losses": "each loss, against nn.Linear and cross-entropy: time and memory",
    "dynamics": "an epoch that records dynamics, against one that does not",
    "correlate": "the paired bootstrap, against a plain loop and its limits; Kendall, against SciPy",
    "people": "correlate and people within their limits, human_hardness against the table of scores",
    "explore": "the explorer in a headless Chromium: start, brush, filter, zoom, thumbnails, memory",
    "adapt": "pseudo-label selection, against softmax and angles alone",
    "mine": "mining, against the bare product of all pairs; a SupCon step, against pytorch-metric-learning's",
    "hardness": "which scores find injected hardness",
    "clean": "wrong labels found by clean and by cleanlab",
    "check": "photographs with wrong labels, checked from nothing; large JPEGs; the quality of images, against CleanVision",
}


def main(words: Sequence[str] | None = None) -> None:
    """Run the benchmark that the command line names and print its numbers."""
    listed = "\n".join(f"  {name:<10} {about}" for name, about in BENCHMARKS.items())
    names = _parser("python -m benchmarks", f"{__doc__}\n\n{listed}\n\npython -m benchmarks NAME --help lists the options.")
    names.add_argument("name", metavar="NAME", choices=BENCHMARKS)
    names.add_argument("options", metavar="OPTIONS", nargs=argparse.REMAINDER)
    given = names.parse_args(words)
    module = importlib.import_module(f"benchmarks.{given.name}")
    parser = parser_of(module)
    options = vars(parser.parse_args(given.options))
    as_json = options.pop("json")
    try:
        with redirect_stdout(sys.stderr if as_json else sys.stdout):
            document = getattr(module, "report", report)(module.run(**options))
    except (HardsightError, ImportError) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    if as_json:
        print(json.dumps(document, indent=2))


def parser_of(module: ModuleType) -> argparse.ArgumentParser:
    """The options of a benchmark: the parameters of its `run`, with its docstring as help."""
    parser = _parser(f"python -m benchmarks {module.__name__.rpartition('.')[2]}", f"{module.__doc__}\n\n{getdoc(module.run)}")
    kinds = get_type_hints(module.run)
    for name, parameter in signature(module.run).parameters.items():
        flags = {"n": ["-n"], "output": ["-o", "--output"]}.get(name, [f"--{name.replace('_', '-')}"])
        how: dict[str, Any] = {"action": "store_true"} if kinds[name] is bool else {"type": READ[kinds[name]]}
        parser.add_argument(*flags, default=parameter.default, **how)
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON; all else goes to standard error")
    return parser


def _parser(prog: str, description: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(prog, description=description, formatter_class=argparse.RawDescriptionHelpFormatter)


def positive(text: str) -> int:
    """A whole number of at least 1."""
    if int(text) < 1:
        raise ValueError
    return int(text)


def separated(read: Callable[[str], Any], text: str) -> tuple[Any, ...]:
    """Comma-separated values."""
    return tuple(read(word.strip()) for word in text.split(",") if word.strip())


READ: dict[Any, Callable[[str], Any]] = {  # by the type of a parameter
    int: positive,
    int | None: positive,
    Path: Path,
    Path | None: Path,
    tuple[int, ...]: partial(separated, positive),
    tuple[float, ...]: partial(separated, float),
    tuple[str, ...]: partial(separated, str),
}


if __name__ == "__main__":
    main()
