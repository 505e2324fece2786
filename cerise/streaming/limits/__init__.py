"""Limits on the state of a stream: how much a bucket may keep, and how the oldest of it goes."""
