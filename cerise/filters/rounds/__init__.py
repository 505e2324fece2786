"""Rounds between an asker and sites that hold events: the pull strategies of [DFS], without a network."""
