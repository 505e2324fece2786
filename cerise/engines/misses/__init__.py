"""Why not (M47): how far the search got from events that start no match, and why it stopped there."""
