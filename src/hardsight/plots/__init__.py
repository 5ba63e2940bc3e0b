"""Numbers in, matplotlib figures out. Nothing here computes a score."""
