"""Environment: one document for everything a platform stands on, from the project's services to the teams' queues."""

from sliceworks.specs.environment.document import Environment, EnvironmentSpec

__all__ = ["Environment", "EnvironmentSpec"]
