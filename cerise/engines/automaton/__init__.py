"""The compiler that all engines share, and the memory, events and state that they run on."""
