"""Cerise on Spark, batch and stream: the only room that imports pyspark."""

from cerise.errors import PlanError

try:
    import pyspark  # noqa: F401
except ImportError:
    raise PlanError(
        "Spark is not installed",
        hint="pip install 'cerise-spark[local]'; or give a table: pyarrow.parquet.read_table(path)",
    ) from None
