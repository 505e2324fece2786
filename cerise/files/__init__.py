"""Files of events: folders, Parquet and Delta tables read in place, CSV and JSON, checksums."""
