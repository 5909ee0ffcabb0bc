"""The pipeline that the paper compares with (Zhong & Chen, 2021), with our encoders, data and scorer.

A span model predicts the entities. A marker model with its own encoder (`unire.training.markers`) classifies the
relation of each ordered entity pair: `exact`, one pass per pair, or `approximate`, one pass per sentence.
"""
