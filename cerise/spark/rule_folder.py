"""A folder of query files as a stream of changes: a file adds its query, a file that goes removes it.

The offset of this source is the whole content of the folder, so that a batch which is repeated after a fault
sees the same queries, even if the folder has changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from cerise.errors import StoreError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT = "cerise_rules"
COLUMNS = "op string, name string, query string"
SUFFIXES = (".cer", ".sase", ".sql")
Rules = dict[str, str]  # the text of each query by its name


class RuleFolder(DataSource):
    """The query files of a folder, as Spark reads them."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return COLUMNS

    def simpleStreamReader(self, schema: Any) -> RuleReader:  # noqa: ARG002, N802
        return RuleReader(self.options["path"])


class RuleReader(SimpleDataSourceStreamReader):
    """Compares the folder with the content that the last batch saw."""

    def __init__(self, path: str) -> None:
        self._path = path

    def initialOffset(self) -> Rules:  # noqa: N802
        return {}

    def read(self, start: Rules) -> tuple[Iterator[tuple[str, str, str]], Rules]:
        """Return the changes since an offset, and the offset after them."""
        now = read_rules(self._path)
        return self.readBetweenOffsets(start, now), now

    def readBetweenOffsets(self, start: Rules, end: Rules) -> Iterator[tuple[str, str, str]]:  # noqa: N802
        """Return the changes between two offsets; a changed file is removed, then added."""
        return iter(find_changes(start, end))

    def commit(self, end: Rules) -> None:
        """Do nothing: the folder is not changed."""


def find_changes(start: Rules, end: Rules) -> list[tuple[str, str, str]]:
    """Return the rows (operation, name, query) that lead from one content to another.

    >>> find_changes({"a": "1", "b": "2"}, {"b": "3"})
    [('remove', 'a', ''), ('remove', 'b', ''), ('add', 'b', '3')]
    """
    gone = [name for name in sorted(start) if start[name] != end.get(name)]
    fresh = [name for name in sorted(end) if end[name] != start.get(name)]
    return [("remove", name, "") for name in gone] + [("add", name, end[name]) for name in fresh]


def read_rules(path: str) -> Rules:
    """Return the text of each query file in a folder, by the file's name without its suffix.

    Raises:
        StoreError: the folder cannot be read, or two files have the same name.
    """
    rules: Rules = {}
    try:
        for file in sorted(Path(path).iterdir()):
            if file.suffix not in SUFFIXES:
                continue
            if file.stem in rules:
                raise StoreError(f"two files in {path} are named {file.stem}", hint="rename one of them")
            rules[file.stem] = file.read_text()
    except OSError as error:
        raise StoreError(
            f"cannot read the folder of queries {path}: {error}", hint="is the path right?"
        ) from error
    return rules


def read_folder(spark: SparkSession, path: str) -> DataFrame:
    """Return the changes of a folder of queries as a streaming DataFrame."""
    spark.dataSource.register(RuleFolder)
    return spark.readStream.format(FORMAT).option("path", path).load()
