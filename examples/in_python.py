"""Write a query in Python and run it on a pandas frame.

Logins that fail again and again, and then succeed without a reset of the password before.

Run it with: python examples/in_python.py
"""

import datetime as dt

import pandas as pd

import cerise
from cerise.dsl import count, i, many, no, seq, var

START = dt.datetime(2024, 11, 15, 8, 0)
LOG = [
    (0, "anna", "fail"), (1, "bert", "fail"), (2, "anna", "fail"), (3, "bert", "ok"), (4, "anna", "fail"),
    (5, "anna", "ok"), (6, "cleo", "fail"), (7, "cleo", "fail"), (8, "cleo", "fail"), (9, "cleo", "reset"),
    (10, "cleo", "ok"),
]  # fmt: skip


def main() -> None:
    log = pd.DataFrame(
        [(START + dt.timedelta(minutes=minute), user, what) for minute, user, what in LOG],
        columns=["at", "user", "what"],
    )
    tries, reset, success = many(var("fail", "tries")), var("reset", "reset"), var("ok", "success")
    query = (
        seq(tries, no(reset), success)
        .where(count(tries) >= 3, tries[i].at - tries[i - 1].at <= dt.timedelta(minutes=2))
        .same("user")
        .within("10 minutes")
        .returns(user=success.user, tries=count(tries), at=success.at)
    )
    print(cerise.parse(query))
    print(cerise.find(log, query, time="at", type="what").drop(columns="match_id"))


if __name__ == "__main__":
    main()
