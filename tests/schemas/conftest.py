"""Registers the API server's rules with the built-in scheme, which these tests check."""

from sliceworks.twin.apiserver.registry.kinds import STRATEGIES

assert STRATEGIES
