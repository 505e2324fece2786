"""Reading a store: with its index, and for queries that keep whole events."""
