"""Runs: the only room that touches disk, clock and console."""
