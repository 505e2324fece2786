"""The engine of joins: any-match queries as trees of joins, whose sub-trees many queries share."""

from cerise.engines.tree.engine import ENGINE

__all__ = ["ENGINE"]
