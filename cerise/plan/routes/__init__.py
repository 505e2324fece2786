"""Takes events to the leaves they fit: comparisons as ranges of keys, columns as keys, leaves as tables."""
