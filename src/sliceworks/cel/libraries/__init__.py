"""The functions that expressions may call beyond CEL's own, one library per module."""
