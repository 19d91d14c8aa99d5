"""Nodes: they boot, send heartbeats, run pods, fail and go, as stage data says; or run a pod's commands as processes."""
