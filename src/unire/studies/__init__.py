"""The paper's tables and figures, on one's own data and encoder: a file each, and a report of all."""
