"""The gateway: one HTTP API in front of model servers of every kind, and a model server to rehearse with."""
