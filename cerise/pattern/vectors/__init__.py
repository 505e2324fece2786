"""Expressions over one event, computed for all rows of a table at once by NumPy and Arrow.

Nothing is compiled, so that a thousand queries start at once. The meaning is that of `pattern.evaluate`.
"""

from cerise.pattern.vectors.row_values import evaluate_rows, holds
from cerise.pattern.vectors.vector import NULL_KEY, Vector, order_keys

__all__ = ["NULL_KEY", "Vector", "evaluate_rows", "holds", "order_keys"]
