"""Streams without Spark: the watermark, held events, live queries, and the journal of a bucket."""
