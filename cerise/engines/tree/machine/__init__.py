"""The machine that joins: its records, and the kernels that read and write them."""
