"""Watch a stream in this process, without Spark: a card that is used in two countries within ten minutes.

Run it with: python examples/watch_in_process.py
"""

import datetime as dt
import random

import pyarrow as pa

import cerise

COLUMNS = pa.schema([("at", pa.timestamp("us", "UTC")), ("card", pa.int64()), ("country", pa.string())])
QUERY = """
    PATTERN SEQ(here, there)
    WHERE [card] AND there.country <> here.country
    WITHIN 10 minutes
    RETURN here.country AS first, there.country AS then
"""
NOON = dt.datetime(2026, 3, 2, 12, tzinfo=dt.UTC)


def payments(minute: int, chance: random.Random) -> pa.Table:
    """Return the payments that arrive in one minute; some of them happened two minutes ago."""
    rows = []
    for _ in range(3):
        at = NOON + dt.timedelta(minutes=minute - chance.choice([0, 0, 0, 2]), seconds=chance.randrange(60))
        country = chance.choices(["FR", "PE", "JP"], [30, 1, 1])[0]
        rows.append({"at": at, "card": chance.randrange(60), "country": country})
    return pa.Table.from_pylist(rows, schema=COLUMNS)


def main() -> None:
    watcher = cerise.Watcher(QUERY, COLUMNS, time="at", delay="3 minutes")
    chance = random.Random(7)
    for minute in range(60):
        for match in watcher.feed(payments(minute, chance)).to_pylist():
            now = NOON + dt.timedelta(minutes=minute)
            where = (
                f"{match['first']} {match['first_time']:%H:%M}, {match['then']} {match['last_time']:%H:%M}"
            )
            print(f"{now:%H:%M} card {match['card']}: {where}")
        if minute == 30:  # a restart: the state is a few bytes
            state = watcher.save()
            watcher = cerise.Watcher(QUERY, COLUMNS, time="at", delay="3 minutes")
            watcher.load(state)
    print(watcher.figures)


if __name__ == "__main__":
    main()
