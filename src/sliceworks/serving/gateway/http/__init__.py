"""HTTP/1.1 by hand, on asyncio's protocols and httptools: a server, and a client that passes pieces on as they come."""
