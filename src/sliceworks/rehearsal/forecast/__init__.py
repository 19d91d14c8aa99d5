"""When queued work will start and end: the state of the queues, run forward in a twin's Kueue, many times over."""
