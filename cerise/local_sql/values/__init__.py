"""Typed values of SQL, and the operators and functions that DuckDB computes as Spark does."""
