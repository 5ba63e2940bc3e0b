from .agreement import score_histograms
from .attacks import error_curves, histograms, roc_curves
from .dynamics import curves_figure
from .html_page import captioned, escaped, page, paragraph, table
from .saving import save_figure
from .style import COLORS, MARKERS

__all__ = [
    "COLORS",
    "MARKERS",
    "captioned",
    "curves_figure",
    "error_curves",
    "escaped",
    "histograms",
    "page",
    "paragraph",
    "roc_curves",
    "save_figure",
    "score_histograms",
    "table",
]
