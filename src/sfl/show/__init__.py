"""Figures and videos of runs."""
