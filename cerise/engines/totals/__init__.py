"""Totals over matches: each match is added when it comes, and not kept (S7.2)."""

from cerise.engines.totals.groups import Positions
from cerise.engines.totals.ledger import Ledger, each_alone, group_names, partial_schema

__all__ = ["Ledger", "Positions", "each_alone", "group_names", "partial_schema"]
