"""Many queries at once: their names, the groups that share a plan, and one table of their answers."""
