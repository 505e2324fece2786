"""The parts of a pattern of 002, and the pattern as text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Window:
    """How long a match may last: minutes, or events where `counted`."""

    size: int
    counted: bool = False

    @property
    def text(self) -> str:
        """The window as Cerise reads it."""
        return f"{self.size} events" if self.counted else f"{self.size} minutes"


@dataclass(frozen=True, slots=True)
class Predicate:
    """A comparison of the differences of two types: `left.diff op right.diff + shift`."""

    left: str
    op: str
    right: str
    shift: float
    selectivity: float

    def of(self, names: dict[str, str]) -> str:
        """Return the comparison as Cerise reads it, with the variables of the types."""
        shifted = f" {'-' if self.shift < 0 else '+'} {abs(self.shift):.2f}" if self.shift else ""
        return f"{names[self.left]}.diff {self.op} {names[self.right]}.diff{shifted}"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern: SEQ or AND of types, each of them once.

    Attributes:
        operator: "SEQ" or "AND".
        types: the types, in their order.
        window: how long a match may last.
        predicates: comparisons of two types.
        negated: the type that is absent, or None.
        repeated: the type under Kleene closure, or None.
    """

    operator: str
    types: tuple[str, ...]
    window: Window
    predicates: tuple[Predicate, ...] = ()
    negated: str | None = None
    repeated: str | None = None

    @property
    def positive(self) -> tuple[str, ...]:
        """The types that a match binds."""
        return tuple(name for name in self.types if name != self.negated)

    @property
    def text(self) -> str:
        """The query as Cerise reads it; it has all matches, and can be counted."""
        names = {name: f"v{number}" for number, name in enumerate(self.types, 1)}
        items = ", ".join(self._item(name, names[name]) for name in self.types)
        where = " AND ".join(each.of(names) for each in self.predicates)
        return (
            f"PATTERN {self.operator}({items})\nUSE skip_till_any_match\nWHERE {where}\n"
            f"WITHIN {self.window.text}"
        )

    def _item(self, name: str, variable: str) -> str:
        if name == self.negated:
            return f"~({name} {variable})"
        return f"{name}+ {variable}[]" if name == self.repeated else f"{name} {variable}"
