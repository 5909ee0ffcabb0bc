"""The pipeline that the paper compares with (Zhong & Chen, 2021), on our encoders, data and scorer.

A span model finds the entities. A second model, with an encoder of its own, is shown each ordered pair of them between
typed markers and names the relation, if there is one: `exact`, a pair at a time, or `approximate`, all pairs of a
sentence in one pass; it is in `unire.training.markers`. Nothing outside this folder
and the study commands uses the rest.
"""
