"""Numba: what runs once per event or more often, compiled."""
