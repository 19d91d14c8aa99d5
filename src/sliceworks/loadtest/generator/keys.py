"""Names that the senders and whoever starts them agree on; this module loads nothing of gevent."""

KEY = "SLICEWORKS_LOAD_KEY"
"""The variable with the key that is sent to the target."""
