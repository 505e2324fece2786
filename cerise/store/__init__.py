"""Where events rest: files and tables, read to Arrow in arrival order."""
