"""Sliceworks: training and serving on TPU and GPU slices on Kubernetes, rehearsed on a laptop first."""

__version__ = "0.1.0"
