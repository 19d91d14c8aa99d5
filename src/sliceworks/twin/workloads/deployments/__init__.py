"""Deployments: ReplicaSets that follow one another."""
