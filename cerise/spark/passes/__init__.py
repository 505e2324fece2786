"""Passes as tasks of Spark."""
