"""The controllers that run in a real cluster."""
