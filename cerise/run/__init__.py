"""Questions over a source: planned once, answered slice by slice by one loop, here or on Spark."""
