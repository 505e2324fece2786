"""Watch a folder for unpaid orders while a thread writes events into it; stop, start again, and go on.

Run it with: python examples/watch.py
"""

import datetime as dt
import json
import tempfile
import threading
import time
from pathlib import Path

from deltalake import DeltaTable

import cerise

QUERIES = {
    "paid": "PATTERN SEQ(order o, payment p) WHERE [id] WITHIN 15 minutes RETURN o.at AS ordered",
    "unpaid": "PATTERN SEQ(order o, NOT payment p) WHERE [id] WITHIN 15 minutes RETURN o.at AS ordered",
}
NINE = dt.datetime(2026, 3, 2, 9, tzinfo=dt.UTC)
FILES, MATCHES = 6, 8


def write_events(folder: Path) -> None:
    """Write a file of ten minutes every second: one order that is paid, and one that is not."""
    for number in range(FILES):
        events = [(0, "order", 2 * number), (4, "payment", 2 * number), (5, "order", 2 * number + 1)]
        times = [NINE + dt.timedelta(minutes=10 * number + minute) for minute, _, _ in events]
        lines = [
            json.dumps({"at": at.isoformat(), "kind": kind, "id": order})
            for at, (_, kind, order) in zip(times, events, strict=True)
        ]
        draft = folder / f".{number}.json"
        draft.write_text("\n".join(lines))
        draft.rename(folder / f"{number}.json")  # a file appears whole
        time.sleep(1)


def watch(place: Path, matches: int) -> None:
    """Watch the folder until the table of alerts has some matches."""
    reader = cerise.session().readStream.schema("at timestamp, kind string, id long")
    events = reader.option("maxFilesPerTrigger", 1).json(str(place / "events"))
    found = cerise.watch(events, QUERIES, time="at", type="kind", delay="5 minutes", buckets=1)
    writer = found.writeStream.foreachBatch(cerise.into(place / "alerts")).trigger(processingTime="1 second")
    running = writer.option("checkpointLocation", str(place / "checkpoint")).start()
    shown = {each["match_id"] for each in read_alerts(place)}
    while len(shown) < matches and not running.awaitTermination(0.2):
        for alert in read_alerts(place):
            if alert["match_id"] not in shown:
                shown.add(alert["match_id"])
                print(f"  {alert['query']:6} order {alert['id']:2} of {alert['ordered']:%H:%M}")
    running.stop()


def read_alerts(place: Path) -> list[dict]:
    if not DeltaTable.is_deltatable(str(place / "alerts")):
        return []
    return DeltaTable(place / "alerts").to_pyarrow_table().sort_by("last_time").to_pylist()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "events").mkdir()
        writer = threading.Thread(target=write_events, args=[place / "events"])
        writer.start()
        cerise.session(spark_sql_shuffle_partitions=1)  # as many as buckets
        print("watching:")
        watch(place, 3)
        print("stopped; started again, from the checkpoint:")
        watch(place, MATCHES)
        writer.join()
        print("each match once:")
        alerts = [(each["query"], each["id"], str(each["ordered"])) for each in read_alerts(place)]
        cerise.session().createDataFrame(alerts, "query string, id long, ordered string").show()


if __name__ == "__main__":
    main()
