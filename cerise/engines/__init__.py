"""Engines run queries over events; one folder per algorithm."""
