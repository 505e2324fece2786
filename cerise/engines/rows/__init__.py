"""The compiled engine for row patterns: sorts rows, searches them for matches, and builds the result."""
