"""What `kubectl get` shows of each built-in kind: its columns, and how a row is made of an object."""
