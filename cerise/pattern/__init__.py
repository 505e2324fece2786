"""What to find: patterns, expressions and queries as frozen data that knows no engine."""
