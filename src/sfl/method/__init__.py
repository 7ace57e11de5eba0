"""Successor Feature Landmarks (Hoang et al., 2021), chapter by chapter.

How alike are two observations: the cosine of their successor features.
Which become nodes: those unlike every node so far.
When is there an edge: when the agent has moved from one node to the other often enough.
"""
