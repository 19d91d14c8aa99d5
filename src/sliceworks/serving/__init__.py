"""ModelServices turned into objects of a cluster, one module for each engine; and the gateway in front of them."""
