"""A ModelService turned into manifests, one module per engine, and the gateway."""
