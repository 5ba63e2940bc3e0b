"""Do scores agree with people? Human data, joined to scores, compared and tested."""

from hardsight.agreement.correlations import Correlations, correlate
from hardsight.files.human import People, read_people

__all__ = ["Correlations", "People", "correlate", "read_people"]
