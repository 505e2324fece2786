"""Ways to write a query; each returns a `pattern.Query`."""
