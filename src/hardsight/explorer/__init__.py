"""The page in the browser (`hardsight explore`), and the same page as one file (`hardsight report`).

settings.py           the options of both
opening.py            which of the things in a run, a file or memory are shown
display.py            what the page shows of samples: columns, and all that is known of them
columns.py            a column as the bytes that the browser gets
thumbnails.py         a sample's image, from the run's declared folders, re-encoded
memory_limit.py       a limit on the pixels in memory at a time
sample_detail.py      one sample: angles, neighbors, degraded versions
embedding_map.py      the features in two dimensions: PCA, t-SNE, UMAP
embedding_process.py  t-SNE and UMAP in a separate process
epochs.py             dynamics: each sample over the epochs; a cache of arrays read from files
selection.py          a selection: its groups, their curves, agreement with people
suspects.py           what hardsight clean found, as columns
quick_filters.py      a subset, the groups of an audit, a drift, as columns to filter by
two_runs.py           two runs on the same ids
adapt_rounds.py       a run of hardsight adapt: what each method kept, round by round
review.py             a person's marks, in the run's review.parquet or next to a file
downloads.py          the selection or the review as a table and as a file
security.py           who may connect, and what they may request
routes.py             what the browser requests
server.py             the port and the HTTP server
serve.py              from the options to a running server
explore.py            `hardsight.explore`: the page in a notebook
report.py             what the report contains: facts, figures, rows, columns
one_file.py           the page and its data as one HTML file
audit_page.py         the page of hardsight audit
page.html, page.css, js/    the page as it is served: no build step
"""
