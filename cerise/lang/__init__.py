"""The languages of queries: SASE+ and Python, which give a `pattern.Query`, and SQL with MATCH_RECOGNIZE."""
