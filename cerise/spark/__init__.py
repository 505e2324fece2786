"""Cerise on Spark, batch and stream: the only room that imports pyspark."""

from cerise.errors import PlanError

try:
    import pyspark  # noqa: F401
except ImportError:
    raise PlanError(
        "Spark is not installed",
        hint="pip install 'cerise-spark[local]'; or leave spark= out: this process reads paths and stores",
    ) from None
