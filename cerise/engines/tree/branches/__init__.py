"""Queries as joins: the branches of a query, and the leaves and columns that many branches share."""
