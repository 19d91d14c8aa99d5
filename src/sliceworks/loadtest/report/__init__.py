"""Reports of runs: one HTML page that stands alone, or Markdown."""
