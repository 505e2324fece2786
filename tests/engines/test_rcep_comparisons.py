"""Comparisons between two events: which predicates are one, and which edges of an automaton they speak of."""

from __future__ import annotations

import pytest

from cerise.engines.rcep.plan import Plan, plan_of
from cerise.engines.rcep.plan_edges import PlanEdge, binds, find_link, find_test
from cerise.kinds import Kind
from cerise.pattern.expr import At, Attr, Index
from cerise.plan.comparisons import EventComparison, Side, comparison_of, is_sequence
from tests.engines.test_rcep import ANY, KLEENE, bound_of

B = frozenset({"b"})
FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}


def plan(where: str, pattern: str = "SEQ(A a, B+ b[], C c)") -> Plan:
    return plan_of(bound_of(f"PATTERN {pattern} {ANY} WHERE {where}"))


def known(where: str) -> EventComparison | None:
    (conjunct,) = [each for each in bound_of(f"{KLEENE} WHERE {where}").conjuncts if not each.filters]
    return comparison_of(conjunct.expr)


def compared(where: str) -> EventComparison:
    found = known(where)
    assert found is not None
    return found


def shown(found: EventComparison | None) -> str | None:
    """A comparison as `a every < b 1`."""
    if found is None:
        return None
    left, right = ((each.var, getattr(each.at, "value", each.at)) for each in (found.left, found.right))
    return f"{left[0]} {left[1]} {found.op} {right[0]} {right[1]}"


# ---- which predicates


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("a.x < b.x", "a every < b every"),
        ("b.x < NEXT(b.x)", "b previous < b current"),
        ("PREV(b.x) < b.x", "b previous < b current"),
        ("b[i].x > b[i-1].x + 1", "b current > b previous"),
        ("b[i].x >= b[1].x", "b current >= b 1"),
        ("c.x < FIRST(b.x) * 2", "c every < b 1"),
        ("c.y >= LAST(b.x)", "c every >= b last"),
        ("b[2].x = c.x", "b 2 = c every"),
        ("a.s != c.s", "a every != c every"),
        ("a.x + a.y > abs(c.x)", "a every > c every"),
        ("upper(a.s) <= c.s", "a every <= c every"),
        ("if(a.x > 1, a.x, 2) = c.x", "a every = c every"),
    ],
)
def test_a_comparison_has_one_event_on_each_side(where: str, expected: str) -> None:
    found = plan(where)
    (automaton,) = found.program.automata
    (only,) = [each for each in automaton.branch.conjuncts if not each.filters]
    assert shown(comparison_of(only.expr)) == expected


@pytest.mark.parametrize(
    "where",
    [
        "a.x + c.x > 2",
        "a.x < c.x + b[1].x",
        "a.x < c.x OR a.x = 1",
        "NOT a.x < c.x",
        "a.x IN (c.x, 1)",
        "sum(b.x) > a.x",
        "b[i].x > avg(b[..i-1].x)",
        "b[i].x - b[i-1].x > 1",
        "b.LEN > a.x",
        "a.flag = c.flag",
        "(a.x > 1) = (c.x > 1)",
        "b[2].x > b[2].y",
    ],
)
def test_other_predicates_are_no_comparison(where: str) -> None:
    assert known(where) is None


@pytest.mark.parametrize("op", FLIPPED)
def test_a_comparison_says_the_same_with_its_sides_exchanged(op: str) -> None:
    found = compared(f"a.x {op} c.y")
    assert shown(found.flip()) == f"c every {FLIPPED[op]} a every"
    assert found.flip().flip() == found


def test_a_side_knows_its_kind() -> None:
    kinds = [(each.left.kind, each.right.kind) for each in map(compared, ("a.x < c.y", "a.s = c.s"))]
    assert kinds == [(Kind.INT, Kind.FLOAT), (Kind.STRING, Kind.STRING)]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("SEQ(A a, B+ b[], C c)", True),
        ("SEQ(A a, SEQ(B+ b[], C c))", True),
        ("SEQ(A+ a[])", True),
        ("AND(A a, B+ b[])", False),
        ("SEQ(A a, AND(B+ b[], C c))", False),
    ],
)
def test_what_is_a_sequence(pattern: str, expected: bool) -> None:
    (branch,) = bound_of(f"PATTERN {pattern} {ANY}").branches
    assert is_sequence(branch.pattern) is expected


# ---- which edges

STEPS: dict[str, PlanEdge] = {
    f"{'begin' if step.begins else 'take'} {step.var}": step for step in plan("a.x < 1").steps
}


def test_there_is_a_step_for_each_edge() -> None:
    assert set(STEPS) == {"begin a", "begin b", "take b", "begin c"}


@pytest.mark.parametrize(
    ("var", "at", "edges"),
    [
        ("a", At.EVERY, {"begin a"}),
        ("c", At.EVERY, {"begin c"}),
        ("b", At.EVERY, {"begin b", "take b"}),
        ("b", 1, {"begin b"}),
        ("b", At.CURRENT, {"take b"}),
        ("b", At.PREVIOUS, set()),
        ("b", At.LAST, set()),
        ("b", 2, set()),
    ],
)
def test_a_side_speaks_of_each_event_of_some_edges(var: str, at: Index, edges: set[str]) -> None:
    side = Side(Attr(var, ("x",), At.EVERY, Kind.INT), var, at)
    assert {name for name, step in STEPS.items() if binds(side, step, B)} == edges


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("a.x < b.x", {"begin a, begin b": "a every < b every"}),
        ("b[1].x > a.x", {"begin a, begin b": "a every < b 1"}),
        (
            "b[i].x > b[i-1].x",
            {
                "begin b, take b": "b previous < b current",
                "take b, take b": "b previous < b current",
            },
        ),
        ("b[i].x > b[1].x", {"begin b, take b": "b 1 < b current"}),
        ("c.x < FIRST(b.x)", {"begin b, begin c": "b 1 > c every"}),
        (
            "c.x < LAST(b.x)",
            {"begin b, begin c": "b last > c every", "take b, begin c": "b last > c every"},
        ),
        (
            "c.x = b.x",
            {"begin b, begin c": "b every = c every", "take b, begin c": "b every = c every"},
        ),
        ("b[i].x < c.x", {"take b, begin c": "b current < c every"}),
        ("a.x < c.x", {}),
        ("b[2].x > b[1].x", {}),
        ("b[2].x > c.x", {}),
        ("a.x < LAST(b.x)", {}),
    ],
)
def test_a_comparison_links_the_events_of_two_edges(where: str, expected: dict[str, str]) -> None:
    pairs = ("begin a, begin b", "begin b, take b", "take b, take b", "begin b, begin c", "take b, begin c")
    found = {
        pair: shown(find_link(compared(where), *(STEPS[name] for name in pair.split(", ")), B))
        for pair in pairs
    }
    assert {pair: link for pair, link in found.items() if link} == expected


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("a.x < c.x", {"begin a": "a every < c every"}),
        ("c.x < b.x", {"begin b": "b every > c every", "take b": "b every > c every"}),
        ("c.x < FIRST(b.x)", {"begin b": "b 1 > c every"}),
        ("b[i].x < c.x", {"take b": "b current < c every"}),
        ("c.x < LAST(b.x)", {}),
        ("c.x < b[2].x", {}),
        ("a.x < b.x", {}),
        ("b[i].x > b[i-1].x", {}),
    ],
)
def test_the_last_event_judges_those_before(where: str, expected: dict[str, str]) -> None:
    found = {name: shown(find_test(compared(where), step, "c", B)) for name, step in STEPS.items()}
    assert {name: test for name, test in found.items() if test} == expected


def test_a_last_kleene_variable_judges_by_what_holds_for_all_its_events() -> None:
    steps = {f"{step.var} {step.begins}": step for step in plan("a.x < 1", "SEQ(A a, B+ b[])").steps}
    assert shown(find_test(compared("a.x < b.x"), steps["a True"], "b", B)) == "a every < b every"
    for where in ("a.x < FIRST(b.x)", "a.x < b[2].x"):
        assert find_test(compared(where), steps["a True"], "b", B) is None
    assert find_test(compared("b[i].x > b[i-1].x"), steps["b False"], "b", B) is None


# ---- plans


def test_of_several_links_one_of_order_is_used() -> None:
    found = plan("a.x = b.x AND a.s != b.s AND a.y < b.y AND b.x != c.x AND b.y = c.y")
    links = {
        found.steps[j].var + found.steps[then].var: found.compared[n].op
        for (j, then), n in found.links.items()
    }
    assert links == {"ab": "<", "bc": "="}


def test_an_equality_with_a_single_variable_finds_events_by_value() -> None:
    found = plan("b.x = a.x AND c.s = a.s AND c.y = FIRST(b.y)")
    equal = {
        (found.steps[j].var, found.steps[j].begins): shown(found.compared[number])
        for j, number in found.equal.items()
    }
    assert equal == {
        ("b", True): "a every = b every",
        ("b", False): "a every = b every",
        ("c", True): "a every = c every",
    }


def test_a_conjunction_has_no_neighbours_but_a_last_event() -> None:
    found = plan("a.x < b.x AND b.x < c.x", "SEQ(AND(A a, B+ b[]), C c)")
    assert not found.links
    assert {found.steps[j].var for j in found.judged} == {"b"}
    assert not plan("a.x < b.x", "AND(A a, B+ b[])").judged
