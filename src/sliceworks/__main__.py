"""Runs the command line as `python -m sliceworks`."""

from sliceworks.cli.main import main

if __name__ == "__main__":
    main()
