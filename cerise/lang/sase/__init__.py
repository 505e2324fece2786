"""SASE+ text as queries."""

from cerise.lang.sase.parser import parse

__all__ = ["parse"]
