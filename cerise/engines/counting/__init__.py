"""Counts chains of events without enumerating them: exact numbers of any size, in polynomial time."""
