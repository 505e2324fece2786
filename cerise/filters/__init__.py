"""Which events of a store can be part of a match: two-phase, window-aware filtering [ACER24 §3.3]."""
