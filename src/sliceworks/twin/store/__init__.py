"""The object store: etcd's and the watch cache's part of the twin.

Reading order:
`store`: one revision counter, durable writes, watches and subscribers.
`watch_cache`: the objects of one resource, their recent changes and their watches.
`entry`: an object at one revision, compressed once it is old.
`journal`: the log of changes in SQLite.
`recovery`: backup of a journal, and recovery of a damaged one.
"""
