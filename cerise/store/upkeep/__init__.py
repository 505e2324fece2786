"""What keeps an event table in shape: compaction, vacuum, verification."""
