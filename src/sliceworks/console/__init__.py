"""Web pages over a cluster or a rehearsal."""
