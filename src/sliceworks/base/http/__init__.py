"""The HTTP/1.1 server of the gateway, the echo model, the controllers and the twin, and the client of all others, on asyncio
protocols and httptools.

The server handles several times as many requests per second as a general-purpose server. It limits heads and bodies, enforces
deadlines for slow clients, supports pipelining and streaming, applies back-pressure to slow readers, and shuts down gracefully.

    messages         requests, response heads, HttpError
    request_parser   bytes of one client → requests, with limits
    upgrade          a connection after 101 Switching Protocols
    response_writer  the response to one request
    connection       one client: its requests in order
    server           Application, Limits and Server
    flow_control     fairness between clients: turns and 429 responses
    client           HttpClient: sends requests to one server
"""
