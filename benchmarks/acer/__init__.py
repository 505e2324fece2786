"""The experiments of ACER (000 §4): seeded queries, and ways to answer them, measured side by side."""
