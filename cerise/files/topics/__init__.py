"""Topics of Kafka: their offsets, their messages, and JSON in these."""
