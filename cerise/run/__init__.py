"""Answers questions over a source: plans once, then searches slice by slice, in this process or on Spark."""
