"""`--json`: everything that a command showed, as one JSON document. Files of a result (`-o scores.json`) hold tables instead."""

from __future__ import annotations

import json

from hardsight.screen import Shown, plain_json
from hardsight.version import VERSION


def json_document(command: str, shown: Shown) -> str:
    """What a command showed: warnings come before the numbers that they are about."""
    document = {
        "hardsight": VERSION,
        "command": command,
        "warnings": shown.warnings,
        "summary": plain_json(shown.summary),  # the numbers in the sentences of `Result.lines`
        "tables": shown.records(),  # its tables by name, with full numbers
        "files": shown.files,
        "next": shown.next,
    }
    return json.dumps(document, indent=2, allow_nan=False)
