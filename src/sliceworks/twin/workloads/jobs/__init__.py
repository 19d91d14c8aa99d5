"""Jobs: pods that run to completion, counted once each however they end."""
