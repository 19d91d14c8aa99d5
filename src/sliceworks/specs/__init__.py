"""The product's own documents, typed and frozen: load, check and explain them, without I/O."""
