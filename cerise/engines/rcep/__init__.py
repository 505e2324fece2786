"""Recomputation for expensive queries [RCEP]: keeps events, joins them when the last of a match arrives."""

from cerise.engines.rcep.engine import ENGINES, why_enumerate, why_not

__all__ = ["ENGINES", "why_enumerate", "why_not"]
