"""Nodes that stop to answer, and what becomes of the pods on them."""
