"""What all controllers share.

- `controller`: the base class, with its work queue and workers.
- `resource_keys`: the keys of the resources that controllers read and write.
- `controller_context`: reads from the store, requests to the API, shared indexes.
- `api_writer`: creates, updates, patches and deletes objects as a controller's user.
- `recorder`: core/v1 events.
- `pod_index`, `object_index`: shared indexes of pods, owners and selectors.
- `revisions`: template hashes and ControllerRevisions.
"""
