"""The gateway's side towards models: HTTP/1.1 by hand, on asyncio's protocols and httptools, which passes pieces on as they come."""
