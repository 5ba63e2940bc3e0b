from .collapse import neural_collapse, tolerance, uniformity
from .curves import Curves, plateau, read_curves, still_grows
from .description import read_epochs
from .groups import Groups, by_degradation, by_human, everyone
from .phases import find_phases

__all__ = [
    "Curves",
    "Groups",
    "by_degradation",
    "by_human",
    "everyone",
    "find_phases",
    "neural_collapse",
    "plateau",
    "read_curves",
    "read_epochs",
    "still_grows",
    "tolerance",
    "uniformity",
]
