"""What is put into an environment's cluster: decided here as data, and applied by our own client. Terraform holds nothing of it."""
