"""Seeded data sets of the papers, any size: `table` gives them in memory, `write` as Parquet files."""

from cerise.data.bars import nasdaq as nasdaq
from cerise.data.generators import GENERATORS as GENERATORS
from cerise.data.generators import table as table
from cerise.data.generators import write as write
from cerise.data.jobs import cluster as cluster
from cerise.data.payments import credit_cards as credit_cards
from cerise.data.prices import stock as stock
from cerise.data.ranks import acer_synthetic as acer_synthetic
from cerise.data.reports import crimes as crimes
from cerise.data.rides import citibike as citibike
from cerise.data.visits import funnel as funnel
