"""How results look: figures, HTML pages, and tables in a terminal or a notebook. Nothing here computes a score.

style.py          the palette and markers that figures share
saving.py         figures as files: PNG, and PDF or SVG on request
dynamics.py       curves and neural collapse over the epochs
agreement.py      scores against people
intervals.py      groups of samples, and subsets by their size, with intervals
domains.py        accuracy of adapt and generalize
attacks.py        attacked inputs
html_page.py      the pieces of a self-contained HTML page
table_views.py    a table in a terminal and a notebook
showing.py        a result on the screen, as a page, and its printed tables as files: .csv, .json, .parquet, .tex, .md
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
