"""The program of a team: its plan as tables of records, the memory of its machine, the matches in it."""
