"""The load generator, on gevent and in its own process: sends requests on schedule and records the responses.

locust_environment  the test as a Locust environment
worker              one worker: its share of the schedule, or its users
pacer               sends on time: test clock, clock offsets, 0.1 ms precision
api                 requests of each API under test
http_client         an HTTP/1.1 client that timestamps what happens
response_reader     reads streamed responses: time to first token, usage, failures
"""
