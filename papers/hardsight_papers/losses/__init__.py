"""The recipes of the page of loss abstracts: one abstract a file, its claim on digits, and what was found."""
