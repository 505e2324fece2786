"""Seeded data sets of the papers, any size: `table` gives them in memory, `write` as Parquet files."""

from cerise.data.acer_synthetic import acer_synthetic as acer_synthetic
from cerise.data.citibike import citibike as citibike
from cerise.data.cluster import cluster as cluster
from cerise.data.credit_cards import credit_cards as credit_cards
from cerise.data.crimes import crimes as crimes
from cerise.data.dfs_synthetic import dfs_synthetic as dfs_synthetic
from cerise.data.funnel import funnel as funnel
from cerise.data.generators import GENERATORS as GENERATORS
from cerise.data.generators import table as table
from cerise.data.generators import write as write
from cerise.data.nasdaq import nasdaq as nasdaq
from cerise.data.stock import stock as stock
from cerise.data.ticks import ticks as ticks
