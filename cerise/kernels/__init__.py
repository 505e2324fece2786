"""Kernels: compiled functions for loops over events, and the records they work on."""
