"""The parts of results that both languages share: matches as arrays, computed columns, aggregates."""
