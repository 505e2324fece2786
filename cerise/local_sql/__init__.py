"""The SQL around MATCH_RECOGNIZE in this process: Spark's SQL, said to DuckDB with Spark's meaning."""
