"""What a worker does: send requests at their moments and take down what comes back. It runs on gevent, in a process of its own."""
