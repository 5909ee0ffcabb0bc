"""Marker models (Zhong & Chen, 2021): relation classifiers that read one entity pair between typed markers.

They are more accurate on relations than a table, but slower, and need entities as input. So they relabel the relations
of stored soft labels, from which tables are distilled. The pipeline study also uses one behind a span model.
"""
