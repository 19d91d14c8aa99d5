"""A rehearsed day: what is recorded of it, and what is shown of that."""
