"""How to find it: plans as frozen data."""
