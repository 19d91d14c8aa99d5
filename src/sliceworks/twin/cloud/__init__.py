"""Google's REST APIs on the twin."""
