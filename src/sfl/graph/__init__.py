"""Landmarks as numbers: counts, edges, routes. No pixels, no networks, no methods."""
