"""An event table: settings, columns, data files, appends, commits, compaction, vacuum and verification."""
