"""All that is wrong with the documents of a rehearsal, found at once and before anything starts: each with its place."""
