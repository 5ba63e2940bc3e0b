"""What an editor knows of the options of verbs: mypy reads this file in `make test`; an ignore that is not needed is an error.

So each line proves that an option has its own type: with a wrong value, or under a wrong name, the call is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import hardsight

if TYPE_CHECKING:
    hardsight.extract("model", "data", "run", size=224)
    hardsight.extract("model", "data", "run", size="224")  # type: ignore[arg-type]
    hardsight.train("data", "run", model="lenet", optimizer="adamw", epochs=3)
    hardsight.train("data", "run", model="lenet", optimizer="adam")  # type: ignore[arg-type]
    hardsight.train("data", "run", model="lenet", epoch=3)  # type: ignore[call-arg]
    hardsight.adapt("source", "target", "run", methods=["source", "cbst"])
    hardsight.adapt("source", "target", "run", methods=3)  # type: ignore[arg-type]
    hardsight.clean("run", folds=5)
    hardsight.clean("run", folds="five")  # type: ignore[arg-type]
    hardsight.select("run", 10, method="coverage")
    hardsight.select("run", 10, method=1)  # type: ignore[arg-type]
    hardsight.correlate("run", "counts.npy", level=0.9)
    hardsight.correlate("run", "counts.npy", level="90 %")  # type: ignore[arg-type]
