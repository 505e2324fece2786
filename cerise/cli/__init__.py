"""The command line: `cerise run`, `check`, `explain`, `generate` and `demo`."""
