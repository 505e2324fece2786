"""Queries in Python: predicates are expressions, never lambdas, so they print, pickle and compile."""
