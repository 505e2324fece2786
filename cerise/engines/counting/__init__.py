"""Chains of events, counted without making any: exact numbers of any size, in polynomial time."""
