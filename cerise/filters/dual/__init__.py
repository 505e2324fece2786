"""Dual filtering: which events travel, by the time matches may cover and the values they share [DFS]."""
