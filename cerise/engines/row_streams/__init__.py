"""MATCH_RECOGNIZE over streams: searches that wait for rows, and the rows that open partitions hold."""
