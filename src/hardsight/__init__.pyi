from . import attacks as attacks
from . import data as data
from . import domains as domains
from . import dynamics as dynamics
from . import errors as errors
from . import geometry as geometry
from . import human as human
from . import losses as losses
from . import models as models
from . import quality as quality
from . import scores as scores
from . import stats as stats
from . import subsets as subsets
from . import training as training
from .attacks.attack import attack
from .checking.check import check
from .domains.adapt import adapt
from .domains.generalize import generalize
from .dynamics.tracker import Dynamics
from .errors import HardsightError
from .explorer.explore import explore
from .explorer.report import report
from .exporting.export import export
from .extraction.extract import extract
from .files.verify import verify
from .groups.audit import audit
from .groups.drift import drift
from .head import Head
from .human.correlate import correlate
from .human.people import people
from .quality.clean import clean
from .scores import SCORES, avh
from .result import Result
from .scoring.score import score
from .snapshot import Snapshot
from .subsets.curriculum import curriculum
from .subsets.mine import mine
from .subsets.select import select
from .training.train import train

__version__: str

__all__ = [
    "Dynamics",
    "HardsightError",
    "Head",
    "Result",
    "SCORES",
    "Snapshot",
    "__version__",
    "adapt",
    "attack",
    "audit",
    "avh",
    "check",
    "clean",
    "correlate",
    "curriculum",
    "drift",
    "explore",
    "export",
    "extract",
    "generalize",
    "mine",
    "people",
    "report",
    "score",
    "select",
    "train",
    "verify",
]
