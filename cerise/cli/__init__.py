"""The command line: `cerise run`, `check`, `explain`, `sql`, `store`, `index`, `generate` and `demo`."""
