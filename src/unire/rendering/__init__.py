"""Views of documents: on a terminal, and as an HTML page with the tables."""
