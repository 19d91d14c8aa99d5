"""The one HTTP/1.1 server of the project, on asyncio's protocols and httptools: for the gateway, the echo model and the twin.

A hand-made server answers several times as many requests as a general one, and owes what those give: limits on heads and bodies,
deadlines for slow clients, pipelining, back-pressure towards slow readers, streams, and an end in good order.
"""
