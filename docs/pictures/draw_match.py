"""Draws docs/pictures/match.svg, the picture of the README: python docs/pictures/draw_match.py.

Events on an axis of time, and one match as a chain. They are bars of the generated data set `nasdaq`, and the
match is the second one of the README's query; a test compares both with what Cerise finds.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

TARGET = Path(__file__).with_name("match.svg")
FIRST = 10 * 60 + 42  # minutes of the day: when the first bar opens
WITHIN = 12  # minutes
BARS = {
    "MSFT": (
        332.0, 331.97, 332.14, 332.5, 332.01, 332.15, 332.85, 332.65, 333.67, 333.92, 333.32, 333.79, 333.71,
        332.82, 333.09, 332.61, 332.39,
    ),
    "GOOG": (
        126.0, 126.04, 125.97, 126.29, 126.13, 126.36, 126.43, 126.15, 125.89, 125.68, 125.7, 125.76, 125.66,
        125.59, 125.54, 125.55, 125.52,
    ),
}  # fmt: skip
MATCH = (("m1", "MSFT", 2), ("g1", "GOOG", 3), ("m2", "MSFT", 8), ("g2", "GOOG", 9))  # name, lane, bar
LABELS = {
    "m1": (-16, -16),
    "g1": (0, 36),
    "m2": (-16, -17),
    "g2": (0, 25),
}  # how far from its event a name is

WIDTH, HEIGHT = 800, 330
LEFT, STEP = 96, 42  # of the first bar; between two bars
LANES = {"MSFT": (92, 56), "GOOG": (208, 56)}  # the top of a lane, and its height
AXIS, WINDOW = 292, 46  # the height of the axis, and of the bracket of the window
STYLE = """
  text { font: 14px ui-sans-serif, system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #57606a }
  .name { font-weight: 600; fill: #1f2328 }
  .axis { stroke: #8c959f; stroke-width: 1 }
  .bar { fill: #afb8c1 }
  .window { fill: none; stroke: #8c959f; stroke-width: 1.5 }
  .shade { fill: #8c959f; fill-opacity: 0.09 }
  .chain { fill: none; stroke: #c2185b; stroke-width: 4; stroke-linejoin: round }
  .bound { fill: #c2185b; stroke: #ffffff; stroke-width: 2 }
  .bind { font-weight: 700; fill: #c2185b }
  @media (prefers-color-scheme: dark) {
    text { fill: #9da7b3 }
    .name { fill: #e6edf3 }
    .bar { fill: #57606a }
    .chain { stroke: #f06292 }
    .bound { fill: #f06292; stroke: #0d1117 }
    .bind { fill: #f48fb1 }
  }
"""
TITLE = "A match: Microsoft rises while Google falls, within 12 minutes"
ABOUT = (
    "Two rows of dots, the opening prices of Microsoft and Google minute by minute. "
    "A chain links four of them: m1 and m2 of Microsoft, g1 and g2 of Google."
)


def x_of(bar: float) -> float:
    """Where a bar stands on the axis of time."""
    return LEFT + STEP * bar


def y_of(lane: str, bar: int) -> float:
    """How high a price stands in its lane."""
    prices, (top, height) = BARS[lane], LANES[lane]
    share = (prices[bar] - min(prices)) / (max(prices) - min(prices))
    return round(top + height * (1 - share), 1)


def clock(bar: int) -> str:
    """When a bar opens."""
    return f"{(FIRST + bar) // 60}:{(FIRST + bar) % 60:02}"


def text(x: float, y: float, said: str, more: str = "") -> str:
    """Return some words around a point."""
    return f'<text{more} x="{x}" y="{round(y, 1)}" text-anchor="middle">{said}</text>'


def lanes() -> Iterator[str]:
    """Yield the names of the lanes and a dot for each event."""
    for lane, prices in BARS.items():
        top, height = LANES[lane]
        yield f'<text class="name" x="20" y="{top + height / 2 + 5}">{lane}</text>'
        for bar in range(len(prices)):
            yield f'<circle class="bar" cx="{x_of(bar)}" cy="{y_of(lane, bar)}" r="5"/>'


def axis() -> Iterator[str]:
    """Yield the axis of time."""
    last = len(BARS["MSFT"]) - 1
    yield f'<line class="axis" x1="{x_of(-0.5)}" y1="{AXIS}" x2="{x_of(last + 0.5)}" y2="{AXIS}"/>'
    for bar in range(0, last + 1, 2):
        yield f'<line class="axis" x1="{x_of(bar)}" y1="{AXIS}" x2="{x_of(bar)}" y2="{AXIS + 6}"/>'
        yield text(x_of(bar), AXIS + 24, clock(bar))


def window() -> Iterator[str]:
    """Yield the time in which the match must end."""
    start, stop = x_of(MATCH[0][2]), x_of(MATCH[0][2] + WITHIN)
    yield f'<rect class="shade" x="{start}" y="{WINDOW}" width="{stop - start}" height="{AXIS - WINDOW}"/>'
    yield f'<path class="window" d="M{start} {WINDOW + 9} V{WINDOW} H{stop} V{WINDOW + 9}"/>'
    yield text((start + stop) / 2, WINDOW - 12, f"WITHIN {WITHIN} minutes")


def chain() -> Iterator[str]:
    """Yield the match: its events, linked, with their names and prices."""
    points = [(x_of(bar), y_of(lane, bar)) for _, lane, bar in MATCH]
    yield f'<path class="chain" d="M{" L".join(f"{x} {y}" for x, y in points)}"/>'
    for (name, lane, bar), (x, y) in zip(MATCH, points, strict=True):
        yield f'<circle class="bound" cx="{x}" cy="{y}" r="9"/>'
        right, down = LABELS[name]
        yield text(x + right, y + down, f"{name} {BARS[lane][bar]:.2f}", ' class="bind"')


def picture() -> str:
    """Return the picture as SVG."""
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title about">'
    told = (
        f'<title id="title">{TITLE}</title>',
        f'<desc id="about">{ABOUT}</desc>',
        f"<style>{STYLE}</style>",
    )
    return "\n".join([head, *told, *window(), *axis(), *lanes(), *chain(), "</svg>\n"])


if __name__ == "__main__":
    TARGET.write_text(picture(), encoding="utf-8")
