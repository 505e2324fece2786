"""One plan for many patterns: common sub-patterns, shared trees, and the searches for a cheap plan."""
