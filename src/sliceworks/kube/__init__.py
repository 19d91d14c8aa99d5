"""The one seam to any cluster: resources, requests as data, the client, informers, leader election and events."""
