"""The floor every other room stands on: errors, clock, quantities, names, tables and progress."""
