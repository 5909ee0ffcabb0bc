"""Models that read a pair of entities between typed markers, and name its relation (Zhong & Chen, 2021).

They look at each pair by itself, where a table is filled at once, and have a say in the lessons from which tables
learn; in the study of pipelines one stands behind a model of spans.
"""
