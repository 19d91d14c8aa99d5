"""Reports of runs: a self-contained HTML page, Markdown or JSON.

formatter  durations, latencies, objectives and the verdict as text
renderer   the report of a run
"""
