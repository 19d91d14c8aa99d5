"""What every other package uses: errors, time, Kubernetes notations, HTTP, metrics, files and terminal output.

errors          every error of Sliceworks, in one tree
clock           the clock: real, scaled or virtual time
loops           the event loops behind it
timer_heap      many keyed timers behind one timer of the event loop
duration        Go durations and the ages that kubectl shows
cron_schedule   cron schedules and their times
quantity        Kubernetes quantities
names           name validation, generated and shortened names, suggestions
conditions      status conditions
transport       requests and responses as data, the Transport protocol, the in-process transport
http_transport  the transport over HTTP and HTTPS
retry           retry policies
http            the HTTP/1.1 server
sockets         loopback addresses, and sockets of servers and load generators
stream_decoder  decoders for streamed JSON and server-sent events
protobuf        protobuf messages without generated code
protobuf_wire   the protobuf wire format
yaml_documents  YAML documents with positions
yaml_loader     the YAML parser, bounded in size, depth and nodes
metrics         Prometheus metrics
tables          tables for terminals
progress        progress messages on stderr
html_page       self-contained HTML pages
files           atomic file writes
imports         optional dependencies and lazy exports
watchdog        reports what blocks the event loop, and restarts the process
budget          CPU and memory budgets of work, on the event loop or in a thread
compression     compression of many strings that are alike
memory          garbage collector and allocator settings
"""
