"""Domains: what adapting to one and generalizing to an unseen one share.

opening.py       features and images with a domain
scaling.py       features of each domain brought to a common scale
comparison.py    paired differences with intervals
results_page.py  tables and figures in one HTML file
"""
