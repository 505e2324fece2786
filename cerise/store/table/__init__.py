"""An event table: its settings, columns and data files, appends and commits, and what keeps it in shape."""
