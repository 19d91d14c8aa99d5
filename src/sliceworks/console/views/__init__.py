"""What pages show, as plain data: pure functions of the world, tested without a browser."""
