"""Pipeline options."""
