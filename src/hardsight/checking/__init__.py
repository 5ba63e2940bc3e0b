"""`check`: one command from photographs, a table or arrays to what is wrong with them.

    check.py          `check`: opens, extracts, scores, cleans, compares groups, and writes a run and a report
    findings.py       `Checked`: what was found, as printed, as JUnit and as Markdown
    settings.py       the options of `hardsight check`; rules such as `label_errors > 2%`, and what they make of the counts
    pytest_plugin.py  the fixture `hardsight_check`

Nothing here is imported by another room but the command line.
"""
