"""Cloud Storage.

bucket          buckets and their IAM policies
blob            objects, downloads and uploads
release_bundle  the public bucket with the bundles of Config Connector
"""

from sliceworks.twin.cloud.google.storage.bucket import create

__all__ = ["create"]
