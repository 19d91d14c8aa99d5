"""Names that the senders and whoever starts them agree on; this module loads nothing of gevent."""

KEY = "SLICEWORKS_LOAD_KEY"
"""The variable with the key that is sent to the target."""
PASSWORD = "SLICEWORKS_LOAD_PASSWORD"
"""The variable with the password of Locust's pages."""
