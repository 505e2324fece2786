"""Cerise on Spark, batch and stream: the only room that imports pyspark."""
