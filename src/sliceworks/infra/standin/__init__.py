"""A stand-in for Terraform's google provider: the real one's schema, resources in the twin's cloud, and no network.

Terraform starts it as it starts any provider, and speaks its plugin protocol with it. What the real provider refuses
because of its schema (unknown arguments, missing ones, wrong types) Terraform refuses here too, for it is the same schema.
"""

ATTACHED = "attached"
"""The argument with which it tells where it is and waits, in place of what Terraform expects of a provider it starts."""
