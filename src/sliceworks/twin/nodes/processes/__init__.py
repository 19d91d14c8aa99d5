"""The process runtime: a container's command runs as a process of this machine. Opt-in, and never with the twin's environment."""
