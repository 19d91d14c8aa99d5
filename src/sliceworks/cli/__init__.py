"""The command line: parse, call, render; nothing is decided here."""
