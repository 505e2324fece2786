"""Facts about queries that plans need: events to read, filters to push down, slices of time."""
