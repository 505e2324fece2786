"""Find rallies in generated stock trades, in this process: no Spark, no Java.

Run it with: python examples/quickstart.py
"""

import cerise
import cerise.data

QUERY = """
    PATTERN SEQ(STOCK a, STOCK+ b[], STOCK c)
    WHERE [symbol]
      AND b[1].price > a.price
      AND b[i].price > b[i-1].price
      AND b.LEN >= :rises
      AND c.price < LAST(b.price)
    WITHIN 40
    OUTPUT NON_OVERLAPPING
    RETURN a.price AS was, LAST(b.price) AS top, b.LEN AS rises
"""


def main() -> None:
    trades = cerise.data.table("stock", 1_000, symbols=3)
    found = cerise.find(trades, QUERY, time="ts", type="type", params={"rises": 12})
    for match in found.sort_by("first_time").to_pylist():
        print("symbol {symbol}, {first_time} to {last_time}: {was} to {top} in {rises} steps".format(**match))


if __name__ == "__main__":
    main()
