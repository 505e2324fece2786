"""Subjects of the suite `stream`: the core of a stream in process, and streams on Spark."""
