"""The state of a stream at rest: journal entries and snapshots, and the tasks that step buckets."""
