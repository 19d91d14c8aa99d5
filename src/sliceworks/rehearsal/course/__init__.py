"""How a whole day of a platform is rehearsed: its steps, what is watched meanwhile, and whether all went as expected."""
