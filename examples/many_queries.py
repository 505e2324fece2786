"""Ask many queries at once: which pairs of tickers fall together?

A query for each pair of twenty tickers, all under skip_till_any_match, so that they share one plan of joins.

Run it with: python examples/many_queries.py
"""

from itertools import permutations

import cerise
import cerise.data

TICKERS = (
    "AAPL", "ADBE", "AMD", "AMZN", "AVGO", "BKNG", "CSCO", "GOOG", "INTC", "INTU", "JD", "META", "MRNA",
    "MSFT", "MU", "NFLX", "NVDA", "PYPL", "QCOM", "TSLA",
)  # fmt: skip
RULE = """
    PATTERN SEQ({one} a, {two} b, {one} c) USE skip_till_any_match
    WHERE b.close < b.open * 0.998 AND c.open < a.open * 0.995
    WITHIN 5 minutes
    RETURN a.open AS was, c.open AS now
"""


def main() -> None:
    bars = cerise.data.table("nasdaq", 20_000)
    rules = {f"{one} with {two}": RULE.format(one=one, two=two) for one, two in permutations(TICKERS, 2)}
    counts = cerise.count(bars, rules, time="date", type="ticker")
    print(counts.sort_by([("count", "descending"), ("query", "ascending")]).slice(0, 5).to_pandas())

    print(cerise.explain(bars, rules, time="date", type="ticker", only="INTC with JD"))

    found = cerise.profile(bars, rules, time="date", type="ticker")
    print(found.matches.select(["query", "last_time", "was", "now"]).slice(0, 5).to_pandas())
    print(found.report)


if __name__ == "__main__":
    main()
