"""A TrainingJob turned into a JobSet in a queue, and the reason why it waits."""
