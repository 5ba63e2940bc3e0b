"""Numbers in, matplotlib figures out; and how a table looks in a terminal and in a notebook. Nothing here computes a score."""
