"""Row patterns: rows put in order before matching, and matches turned into the rows of the result."""
