"""EndpointSlices: where the pods behind a Service are reached."""
