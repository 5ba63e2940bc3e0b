from .answers import Ceiling, answer_entropy, noise_ceiling, selection_frequency
from .calibration import Reliability, fit_temperature, reliability
from .coefficients import Coefficient, correlate_columns, fisher_z, holm, interval, kendall, pearson, spearman
from .correlation_tests import (
    Outcome, compare_influences, fisher_test, kendall_influence, meng, steiger, williams, zou,
)  # fmt: skip
from .open_set import Auroc, auroc
from .resampling import Bootstrap, bootstrap, swap_test
from .small_samples import (
    Difference, Mean, design_effect, fisher_exact, mean_interval, share_difference, sign_test, welch, wilson,
)  # fmt: skip
from .uncertainty import pass_scores

__all__ = [
    "Auroc",
    "Bootstrap",
    "Ceiling",
    "Coefficient",
    "Difference",
    "Mean",
    "Outcome",
    "Reliability",
    "answer_entropy",
    "auroc",
    "bootstrap",
    "compare_influences",
    "correlate_columns",
    "design_effect",
    "fisher_exact",
    "fisher_test",
    "fisher_z",
    "fit_temperature",
    "holm",
    "interval",
    "kendall",
    "kendall_influence",
    "mean_interval",
    "meng",
    "noise_ceiling",
    "pass_scores",
    "pearson",
    "reliability",
    "selection_frequency",
    "share_difference",
    "sign_test",
    "spearman",
    "steiger",
    "swap_test",
    "welch",
    "williams",
    "wilson",
    "zou",
]
