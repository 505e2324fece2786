"""Event tables: data files in stream order (`table`), an index of them (`index`), one version (`view`)."""
