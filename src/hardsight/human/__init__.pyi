from .correlations import Correlations
from .settings import CorrelateSettings

__all__ = [
    "CorrelateSettings",
    "Correlations",
]
