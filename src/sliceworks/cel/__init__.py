"""CEL: typed environments from OpenAPI schemas, Kubernetes' and kro's function libraries, and validation rules. Pure.

engine            loads the CEL engine at first use, and translates its messages into cel-go's
syntax            the checked syntax tree, and positions of its nodes in the source
types             CEL types of structural schemas
descriptors       declared types as protobuf descriptors
values            document values for the engine, and results back
libraries         function libraries, one module each
dialect           function libraries as engine configuration
ast_transform     rewrites a tree where the engine differs from Kubernetes
validators        checks that Kubernetes makes and the engine does not
sizes             sizes of values that a schema allows
cost              the estimated cost of an expression
object_types      objects and patches that mutations construct
issues            compile errors as typed issues with the closest known name
environment       compiles an expression against schemas to a program
rule_compilation  the compiled validation rules of one schema node
admission         expressions of match conditions and admission policies
rules             x-kubernetes-validations of a schema, evaluated on objects
source_rewrite    rewrites the source of graph expressions
scopes            variables that expressions at one place of a graph may use
references        paths that an expression reads
expressions       expressions and string templates of resource graphs
"""
