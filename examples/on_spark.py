"""Show patterns of crime reports that Spark's tasks find in Parquet files.

Run it with: python examples/on_spark.py
"""

import tempfile
from pathlib import Path

import cerise
import cerise.data

QUERY = """
    PATTERN SEQ(ROBBERY r, BATTERY b, "MOTOR VEHICLE THEFT" m)
    WHERE [beat]
    WITHIN 6 hours
    RETURN r.id AS robbery, b.id AS battery, m.id AS theft
"""


def main() -> None:
    spark = cerise.session()
    with tempfile.TemporaryDirectory() as folder:
        path = cerise.data.write("crimes", Path(folder, "reports"), events=20_000, files=2)
        matches = cerise.find(path, QUERY, time="date", type="primary_type", order=["id"], spark=spark)
        matches.select("beat", "robbery", "battery", "theft").orderBy("beat").show()


if __name__ == "__main__":
    main()
