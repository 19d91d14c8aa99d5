"""Interactive subresources of pods: exec, attach, port-forward and proxy.

Clients open several streams over one upgraded connection: as channels of WebSocket messages, as SPDY streams, or as SPDY inside
WebSocket messages.

    websocket        the handshake, and messages in both directions
    spdy             SPDY/3.1: streams over one connection
    spdy_dictionary  compresses their headers
    remote_command   exec and attach: stdin, stdout, stderr, terminal size and exit status
    port_forward     connections to ports of a pod
    proxy            HTTP requests to pods and Services
    links            URLs in the pages that are proxied
"""
