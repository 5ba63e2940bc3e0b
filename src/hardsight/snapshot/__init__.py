"""The noun: n samples and what is known of them. `Snapshot.open` takes anything; every verb begins with it.

snapshot.py   the class: rows, columns, evidence, scores; parts of it, opened and saved
opening.py    arrays, frames, and every file that holds a snapshot, opened
sources.py    where the rows are: in memory, in a table of scores, in files
joining.py    two snapshots of the same samples, by id
"""

from __future__ import annotations

from hardsight.snapshot.snapshot import Snapshot as Snapshot
