from .cost import cost_curve
from .metric_learning import AngleMiner
from .sampler import CurriculumSampler

__all__ = [
    "AngleMiner",
    "CurriculumSampler",
    "cost_curve",
]
