"""What the results of both languages are made of: matches as arrays, computed columns, aggregates."""
