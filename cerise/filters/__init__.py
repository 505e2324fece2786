"""Finds the events of a store that may be in a match: two-phase, window-aware filtering [ACER24 §3.3]."""
