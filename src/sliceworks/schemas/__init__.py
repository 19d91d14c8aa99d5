"""OpenAPI structural schemas, pure: the built-in kinds as data; decode, default, prune, validate, patch and field ownership."""
