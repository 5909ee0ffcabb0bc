"""Studies: the paper's tables and figures on other data and encoders, and a report of all of them."""
