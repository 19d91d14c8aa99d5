"""Beam's options."""
