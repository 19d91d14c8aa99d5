"""The twin's memory: versioned objects, their history and those who watch it; durable in SQLite when asked."""
