"""The events of a team: their leaves and columns, their partitions and positions, and those it keeps."""
