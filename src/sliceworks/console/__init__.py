"""The web console of a cluster or a twin.

- `app`: the HTTP server.
- `auth`: access control, and the read-only transport to the cluster.
- `layout`: the layout that all pages share.
- `page`: page registration, context and refresh.
- `components`: UI components as plain data.
- `kinds`: the kinds that pages read.
- `cluster_cache`, `slice_cache`: the cache that pages share.
- `environment_loader`, `graph_loader`, `model_loader`, `recorder`: the I/O of single pages.
- `views`: view models, pure functions of the cache.
- `pages`: one module per page.
"""
