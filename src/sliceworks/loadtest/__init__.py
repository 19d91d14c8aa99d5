"""Arrivals turned into requests, raw rows, statistics and a report."""
