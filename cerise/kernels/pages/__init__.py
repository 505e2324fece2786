"""Kernels that read the pages of Parquet columns: headers, packed differences, and the values of rows."""
