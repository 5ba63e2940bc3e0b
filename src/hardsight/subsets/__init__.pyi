from .metric_learning import AngleMiner
from .sampler import CurriculumSampler

__all__ = [
    "AngleMiner",
    "CurriculumSampler",
]
