"""The compiler that all engines share, and the memory, events and saved state that they use."""
