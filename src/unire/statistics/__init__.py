"""What a data set holds, and what of it a table can hold: counted, and drawn."""

from unire.statistics.counting import Counts, Statistics
from unire.statistics.paper import TABLE_2
from unire.statistics.plot import plot

__all__ = ["TABLE_2", "Counts", "Statistics", "plot"]
