"""Resource graphs, pure: SimpleSchema, dependency graph, compile and evaluate."""
