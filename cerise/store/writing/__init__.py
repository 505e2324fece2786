"""How events come to rest in an event table: its folder, settings, columns, files and index files."""
