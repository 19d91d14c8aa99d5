"""Senders that are pods of a cluster: what is made for them, what runs in them, and how their rows come back."""
