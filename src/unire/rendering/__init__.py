"""Results to look at: on a terminal, and as a page with the tables."""
