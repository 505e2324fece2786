"""A few events of a file, drawn evenly, to tell how selective tests are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import xxhash

from cerise.kinds import plain_table
from cerise.store.index.layout import Layout

SIZE = 1_024


def sample_schema(layout: Layout) -> pa.Schema:
    """Return the columns of a sample: type and attributes, without dictionaries."""
    names = [*([] if layout.type is None else [layout.type]), *layout.attributes]
    types = [layout.type_of(name) for name in names]
    values = [each.value_type if pa.types.is_dictionary(each) else each for each in types]
    return pa.schema(list(zip(names, values, strict=True)))


class Reservoir:
    """Draws events evenly from row groups, of which each is seen once.

    Every event gets a random number; those with the smallest stay, in the order of these numbers, so that
    the first few are a sample too.
    """

    def __init__(self, layout: Layout, seed: str) -> None:
        self._schema = sample_schema(layout)
        self._rng = np.random.default_rng(xxhash.xxh64_intdigest(seed.encode()))
        self._keys = np.empty(0)
        self._rows = self._schema.empty_table()

    def add(self, table: pa.Table) -> None:
        """Draw from some more events."""
        keys = self._rng.random(len(table))
        limit = self._keys[-1] if len(self._keys) == SIZE else 1.0
        fresh = np.flatnonzero(keys < limit)
        if len(fresh) > SIZE:
            fresh = fresh[np.argpartition(keys[fresh], SIZE)[:SIZE]]
        both = np.append(self._keys, keys[fresh])
        order = np.argsort(both)[:SIZE]
        some = plain_table(table.select(self._schema.names)).take(pa.array(fresh))
        drawn = some.cast(self._schema)
        self._rows = pa.concat_tables([self._rows, drawn]).take(pa.array(order)).combine_chunks()
        self._keys = both[order]

    @property
    def events(self) -> pa.Table:
        """The events drawn so far: their type and attributes."""
        return self._rows
