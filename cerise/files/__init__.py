"""Files of events: folders, Parquet and Delta tables read where they lie, CSV and JSON, checksums."""
