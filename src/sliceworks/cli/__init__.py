"""The command line: parse, call, render. A module `<noun>_<part>` has commands of that noun, or what they share.

main                                                        the root command; errors become one line and an exit code
groups                                                      command groups with one-sentence summaries and lazy imports
options                                                     options that mean the same on every command
connections                                                 the cluster and the cloud that a command targets
output                                                      tables, JSON, YAML and names on stdout
terminal                                                    usage bars, live displays, opening a browser
completion                                                  shell completion scripts
doctor, examples                                            checks of this machine; examples of documents
rehearse, rehearse_simulation                               run a folder of documents on a twin
twin                                                        embedded clusters on this machine
env, env_site, env_init                                     the `env` group, what its commands share, a first document
env_changes, env_plan, env_apply, env_resize                priced plans, and what applies them
accelerators                                                TPU slices and GPU machines
graph, graph_compiler, graph_diff                           resource graphs without a cluster
queues                                                      team queues and pending workloads
train, train_client                                         the `train` group, and the reads that its commands share
train_submit, train_flags, train_preflight, train_forecast  submit a job, and predict its start
train_list, train_table, train_show, train_description      list and describe jobs
train_logs, train_log_stream, train_lifecycle               logs, wait, restart and cancel
slices, slice_inventory, slice_view                         slices of a cluster
models, models_deploy, models_publish, models_invoke        model services
gateway, gateway_sax                                        the model gateway, API keys, echo backends and Sax cells
load, load_test, load_runner, load_search                   load tests and their results
controller                                                  the Sliceworks controllers
console                                                     the web console
"""
