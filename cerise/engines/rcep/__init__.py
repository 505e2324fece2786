"""Recomputation for expensive queries [RCEP]: events are kept, joined when the last of a match arrives."""

from cerise.engines.rcep.engine import ENGINES, why_enumerated, why_not

__all__ = ["ENGINES", "why_enumerated", "why_not"]
