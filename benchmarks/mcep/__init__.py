"""The workloads of 002 §6 and App. D: many patterns over `ticks`, and what they should cost."""
