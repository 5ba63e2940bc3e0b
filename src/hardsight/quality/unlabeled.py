"""Near duplicates and outliers of samples without labels, or with labels that cannot be judged: verdicts that need none."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa

from hardsight.errors import InputError
from hardsight.files.suspects import DUPLICATE_OF, SUSPECTS
from hardsight.quality.evidence import Evidence
from hardsight.quality.neighbors import find_neighborhood
from hardsight.quality.suspects import originals_of
from hardsight.quality.verdicts import Judged, explained_verdicts
from hardsight.snapshot import Snapshot
from hardsight.version import VERSION


def unlabeled_suspects(samples: Snapshot) -> pa.Table:
    """A table like that of `clean`, whose columns about labels are null."""
    features, n = samples.features, len(samples)
    if features is None:
        raise InputError(f"{samples.where}: without labels, only features tell duplicates and outliers, and there are none.")
    nobody = np.full(n, -1)
    near = find_neighborhood(features, nobody, 2, lambda done, words: None)
    nothing, no = np.zeros(n), np.zeros(n, bool)
    facts = Judged(no, no, nothing, nobody, nothing, None)
    none = np.zeros((n, 0))
    verdicts = explained_verdicts(samples, Evidence("none", "none", np.arange(0), nobody, none, none), facts, near)
    arrays = {field.name: pa.nulls(n, field.type) for field in SUSPECTS}
    arrays |= {
        "verdict": pa.array(verdicts.names, pa.string()),
        "explanation": pa.array(verdicts.explanations, pa.string()),
        "is_label_issue": pa.array(no),
    }
    notes = {"version": VERSION, "class_names": samples.class_names}
    schema = pa.schema([("id", samples.source.id_type), *SUSPECTS, (DUPLICATE_OF, pa.string())], {"hardsight": json.dumps(notes)})
    originals = pa.array(originals_of(samples.ids, near), pa.string())
    return pa.Table.from_arrays([pa.array(samples.ids, samples.source.id_type), *arrays.values(), originals], schema=schema)
