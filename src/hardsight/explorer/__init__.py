"""See it: the page in the browser (`hardsight explore`) and the same page as one file (`hardsight report`).

settings.py     the options of both
repeat_commands.py        how to do it again: the commands that show the same page
sheet.py      a run, a scores table or a snapshot as one sheet of columns
columns.py      a column as the bytes the browser gets
thumbnails.py     a row's image from the run's declared roots, re-encoded
memory_limit.py        a limit of the pixels in memory at a time
sample_detail.py     one sample: angles, neighbors, degraded versions
embedding_map.py         the features in two dimensions: PCA, t-SNE, UMAP, kept beside the run
embedding_process.py      t-SNE and UMAP in a process of their own
epochs.py       dynamics: curves over the epochs, and each epoch's cloud
groups.py       a selection in groups
suspects.py     what hardsight clean found, as columns
quick_filters.py    a subset, the groups of an audit, a drift, as columns to filter by
agreement.py    human frequency against a score
two_runs.py    two runs on the same ids
adapt_rounds.py       a run of hardsight adapt: its target samples, and what each method kept, round by round
array_cache.py      a cache of arrays read from files
review.py       a person's marks, in the run's review.parquet or beside a file
exporting.py    rows for other tools
security.py     who may ask the server, and for what
ports.py        a free port that browsers open
server.py       the routes
explore.py     `hardsight.explore`: the page in a notebook, its selection and marks back in Python
serve.py     from the options to a running server
audit_page.py, dynamics_page.py   the pages of hardsight audit and hardsight dynamics
report.py       what the report says: facts, figures, rows, columns
one_file.py     the page and its data as one HTML file
page.html, page.css, js/    the page, as it is served: no build step
"""
