"""The page in the browser (`hardsight explore`), in a notebook (`hardsight.explore`), and as one file (`hardsight report`).

From the command to the browser:

settings.py           the options
opening.py            `open_page`: a `Page`, with samples and their scores, from whatever `Snapshot.open` opens
display.py            what is shown of samples: columns, and all that is known of them
page.py               a `Page`: what the browser shows, and must know first
server.py             a port of this machine, with the page on it
security.py           who may connect, and what they may request
routes.py             what the browser requests, and the answers
explore.py            `hardsight.explore`: what is selected and marked, in Python
widget.py, widget.js  the page in a notebook
report.py             what the report contains: facts, figures, rows, columns
one_file.py           the page and its data as one HTML file
page.html, page.css, js/    the page as it is served, no build step: js/main.js comes first and calls the others

What a page may show:

columns.py            a column as the bytes that the browser gets
thumbnails.py         a sample's image, from the run's declared folders, re-encoded
sample_detail.py      one sample: angles, neighbors, degraded versions
embedding_map.py      the features in two dimensions: PCA, t-SNE, UMAP
epochs.py             dynamics: each sample over the epochs; a cache of arrays read from files
selection.py          a selection: its groups, their curves, agreement with people; as a table or a file
other_results.py      what other commands found, as columns: suspects, a subset, groups, a drift
two_runs.py           two runs on the same ids
adapt_rounds.py       a run of hardsight adapt: which samples each method kept
review.py             a person's marks, in the run's review.parquet or next to a file
"""
