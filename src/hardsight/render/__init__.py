"""How results look: figures, HTML pages, and tables in a terminal or a notebook. Nothing here computes a score.

style.py          the palette and markers that figures share
saving.py         figures as files: PNG, and PDF or SVG on request
embedding.py      2-D features, colored by class
dynamics.py       curves and neural collapse over the epochs
agreement.py      scores against people
groups.py         groups of samples with intervals
subsets.py        what a subset costs in accuracy
domains.py        accuracy of adapt and generalize
attacks.py        attacked inputs
html_page.py      the pieces of a self-contained HTML page
dynamics_page.py  the page of `hardsight dynamics`
table_views.py    a table in a terminal and a notebook
showing.py        a result on the screen, and as a page or document
latex.py          tables and text as LaTeX
json_document.py  what a command showed, as the document of --json
printed_tables.py  printed tables as files: .csv, .json, .parquet, .tex, .md
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
