"""The report of a rehearsal: figures, HTML page, terminal summary.

figures     waits, chip use and cost of a run
chart_data  data of the page's charts
sections    sections of the page that are text and tables
page        the report as one HTML file
terminal    the summary for a terminal
"""
