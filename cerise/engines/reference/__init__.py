"""The semantics in the plainest Python: slow, obvious, and the oracle for every other engine (D7)."""

from cerise.engines.reference.matcher import ENGINE

__all__ = ["ENGINE"]
