"""Passes over files that tell which events travel: their choice, their summaries and their filter [DFS]."""
