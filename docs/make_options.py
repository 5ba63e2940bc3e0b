"""Write docs/options.md from the settings classes: python docs/make_options.py > docs/options.md"""

from __future__ import annotations

import importlib
import sys

from hardsight.options import table

SETTINGS = {  # command: the class that defines its options
    "extract": "hardsight.extraction.settings:ExtractSettings",
    "train": "hardsight.training.settings:TrainSettings",
    "adapt": "hardsight.domains.adaptation.settings:AdaptSettings",
    "generalize": "hardsight.domains.generalization.settings:GeneralizeSettings",
    "correlate": "hardsight.human.settings:StudySettings",
    "clean": "hardsight.quality.settings:CleanFileSettings",
    "audit": "hardsight.groups.settings:AuditFileSettings",
    "drift": "hardsight.groups.settings:DriftFileSettings",
    "select": "hardsight.subsets.settings:SelectFileSettings",
    "curriculum": "hardsight.subsets.settings:CurriculumSettings",
    "mine": "hardsight.subsets.settings:MineFileSettings",
    "attack": "hardsight.attacks.settings:AttackSettings",
    "reproduce": "hardsight_papers.settings:ReproduceSettings",
}

HEAD = """\
# Options

<!-- Made by docs/make_options.py from the settings classes. Change those, then run it again. -->

The options of the long commands, on the command line and in Python. Each is defined once, in the class named above its
table. The Python function takes the options as keywords, or as one object:
`hardsight.train(data, model, "run", settings=TrainSettings(epochs=3))`. A run's `start.json` records every option
that its result depends on.
"""


def page() -> str:
    """The whole page."""
    sections = []
    for command, home in SETTINGS.items():
        module, _, name = home.partition(":")
        settings_class = getattr(importlib.import_module(module), name)
        sections.append(f"## hardsight {command}\n\n`{module}.{name}`\n\n{table(settings_class)}")
    return "\n".join([HEAD, *sections])


if __name__ == "__main__":
    sys.stdout.write(page())
