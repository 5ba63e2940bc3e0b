"""Agreement statistics as pure functions on arrays: coefficients, tests, resampling, reliability, calibration."""

from hardsight.stats.answers import Ceiling, answer_entropy, noise_ceiling, selection_frequency
from hardsight.stats.bootstrap import Bootstrap, bootstrap
from hardsight.stats.calibration import Reliability, fit_temperature, reliability
from hardsight.stats.coefficients import Coefficient, correlate_columns, fisher_z, holm, interval, kendall, pearson, spearman
from hardsight.stats.concordance import compare_kendall, kendall_influence
from hardsight.stats.dependent import dunn_clark, hittner, meng, meng_interval, steiger, williams, zou
from hardsight.stats.independent import Outcome, fisher_test
from hardsight.stats.means import Difference, Mean, design_effect, mean_interval, welch
from hardsight.stats.open_set import Auroc, auroc
from hardsight.stats.permutation import swap_test
from hardsight.stats.printed import PRINTED, PrintedRow
from hardsight.stats.proportions import fisher_exact, share_difference, sign_test, wilson
from hardsight.stats.uncertainty import pass_scores

__all__ = [
    "PRINTED",
    "Auroc",
    "Bootstrap",
    "Ceiling",
    "Coefficient",
    "Difference",
    "Mean",
    "Outcome",
    "PrintedRow",
    "Reliability",
    "answer_entropy",
    "auroc",
    "bootstrap",
    "compare_kendall",
    "correlate_columns",
    "design_effect",
    "dunn_clark",
    "fisher_exact",
    "fisher_test",
    "fisher_z",
    "fit_temperature",
    "hittner",
    "holm",
    "interval",
    "kendall",
    "kendall_influence",
    "mean_interval",
    "meng",
    "meng_interval",
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
