"""Mapping State Space: a universal value function as policy and distance, and a map of distant landmarks."""
