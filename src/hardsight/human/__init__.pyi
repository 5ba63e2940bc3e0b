from .correlate import Correlations
from .settings import CorrelateSettings, StudySettings
from .study import Study, study

__all__ = [
    "CorrelateSettings",
    "Correlations",
    "Study",
    "StudySettings",
    "study",
]
