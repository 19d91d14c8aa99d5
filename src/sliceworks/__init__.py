"""Sliceworks: training and serving on TPU and GPU slices on Kubernetes, rehearsed on a laptop first.

The layers, top to bottom (docs/explanation/architecture.md walks through them):

cli                                 parses arguments, calls, renders
console                             web pages
rehearsal                           simulates a scenario on a twin, and forecasts queues
platform                            documents of a folder, loaded, validated and resolved to targets
controllers                         what runs in a real cluster: graphs and slices
training, serving, loadtest, infra  one package per document kind
twin                                an embedded Kubernetes cluster and Google Cloud
graph                               resource graphs: compile, evaluate
kube, cloud                         clients of Kubernetes and of Google's APIs
cel                                 CEL with Kubernetes' types and libraries
schemas, specs, catalog             structural schemas, documents, accelerators
base                                errors, clock, quantities, names, HTTP server, tables
"""

__version__ = "0.2.0"
