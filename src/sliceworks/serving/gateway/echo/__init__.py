"""The echo model server: responds with its prompt at a configured speed and error rate, for rehearsals and load tests.

server  the routes of each API and the server itself
sax     a Sax cell: admin server and model servers
engine  latency, tokens, injected errors and the record of every request
timer   a one-shot timer, accurate to 0.1 ms
"""
