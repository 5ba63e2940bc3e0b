"""t-SNE or UMAP in a separate process: `python -m hardsight.explorer.embedding_process METHOD rows.npy placed.npy`.

It may take minutes and every core. In a separate process it neither keeps the server from answering nor outlives it: it
prints its progress to a pipe, and ends when nobody reads it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from hardsight.errors import HardsightError

ROUNDS = 1000  # of t-SNE: scikit-learn's own
FEWEST = 5  # samples
PERPLEXITY, NEIGHBORS = 30.0, 15  # of t-SNE and UMAP: their own defaults, less for fewer samples

Share = Callable[[float], None]  # how much is done, 0 to 1


class PlacingStopped(HardsightError):
    """The process was ended on request."""


def place(method: str, rows: np.ndarray) -> np.ndarray:
    """(m, k) rows -> (m, 2) places, the same each time; progress goes to standard output and error."""
    if method == "tsne":
        from sklearn.manifold import TSNE

        perplexity = min(PERPLEXITY, (len(rows) - 1) / 3)
        return np.asarray(
            TSNE(2, perplexity=perplexity, max_iter=ROUNDS, init="pca", random_state=0, verbose=2).fit_transform(rows)
        )
    from umap import UMAP

    return np.asarray(UMAP(n_neighbors=min(NEIGHBORS, len(rows) - 1), random_state=0, verbose=True).fit_transform(rows))


def share_done(line: str) -> float | None:
    """The share of the work that is done, from a line of their output; None if it does not say.

    Example:
        >>> share_done("[t-SNE] Iteration 250: error = 70.1"), share_done("Epochs completed:  40%| ####"), share_done("")
        (0.25, 0.4, None)
    """
    if iteration := re.search(r"Iteration (\d+)", line):
        return min(1.0, int(iteration[1]) / ROUNDS)
    percent = re.search(r"(\d+)%\|", line)
    return int(percent[1]) / 100 if percent else None


def placed(method: str, rows: np.ndarray, share: Share, started: Callable[[subprocess.Popen[str]], None]) -> np.ndarray:
    """`place` in another process, which is passed to `started` so that it can be stopped."""
    with tempfile.TemporaryDirectory(prefix="hardsight-map-") as folder:
        source, target = Path(folder) / "rows.npy", Path(folder) / "placed.npy"
        np.save(source, rows, allow_pickle=False)
        script = [sys.executable, "-u", "-W", "ignore", "-m", "hardsight.explorer.embedding_process"]
        words = [*script, method, str(source), str(target)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as process:
            started(process)
            assert process.stdout is not None
            line = ""
            for line in process.stdout:  # a bar that is redrawn with \r is a line each time
                done = share_done(line)
                if done is not None:
                    share(done)
        if process.returncode < 0:
            raise PlacingStopped("stopped.")
        if process.returncode or not target.is_file():
            raise HardsightError(f"{method} ended with an error: {line.strip()}")
        return np.asarray(np.load(target, allow_pickle=False))


def main() -> None:
    """Read rows, place them, write the places."""
    method, source, target = sys.argv[1:]
    os.nice(5)  # the server comes first
    np.save(target, place(method, np.load(source, allow_pickle=False)).astype(np.float32), allow_pickle=False)


if __name__ == "__main__":
    main()
