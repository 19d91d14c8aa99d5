"""The gateway's side towards models: HTTP/1.1 by hand, on asyncio's protocols and httptools; pieces are passed on as they come."""
