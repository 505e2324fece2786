"""Ask a question of a CSV file: which orders were paid, and not shipped within two days?

Run it with: python examples/from_csv.py
"""

from pathlib import Path

import pyarrow.csv

import cerise

ORDERS = Path(__file__).with_name("orders.csv")
LATE = """
    PATTERN SEQ(paid p, NOT shipped s)
    WHERE [order_id]
    WITHIN 2 days
    RETURN p.customer AS customer, p.total AS total, p.changed_at AS paid_at
"""


def main() -> None:
    orders = pyarrow.csv.read_csv(ORDERS)
    late = cerise.find(orders, LATE, time="changed_at", type="status")
    for row in late.sort_by("first_time").to_pylist():
        print(
            f"order {row['order_id']} of {row['customer']}: paid at {row['paid_at']}, not shipped in two days"
        )
    print("why the others are not among them:")
    print(cerise.explain_misses(orders, LATE, time="changed_at", type="status"))


if __name__ == "__main__":
    main()
