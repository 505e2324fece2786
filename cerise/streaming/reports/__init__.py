"""Reports on a stream: how it would run, and the figures of its last batch."""
