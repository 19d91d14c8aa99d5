"""Resource graphs (kro's ResourceGraphDefinition), without I/O: parse, compile to an immutable graph, evaluate for an instance.

Reading order:

model              types: definition, graph, outcomes of an evaluation, errors
definition_parser  document to Definition
markers            SimpleSchema markers
simple_schema      SimpleSchema to OpenAPI
crds               the generated CustomResourceDefinition
instances          validation and defaults of instances
kinds              kinds that templates use
dag                topological order and levels
templates          `${...}` in templates; rendering of objects
resources          resources before their expressions are compiled
expressions        compilation of CEL expressions, type checks
status_projection  status fields and conditions of instances
builder            Definition to Graph
resolver           evaluation of expressions: value, data pending or failure
evaluation         evaluation of a graph for one instance
renderer           rendering without a cluster
diff               comparison of two renderings; the rule for updates
rbac               permissions that the controller needs
layout, diagram    drawing
"""
