"""Where query and events meet; one folder per algorithm."""
