"""Patterns, expressions and queries as frozen data, independent of engines."""
