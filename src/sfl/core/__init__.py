"""Seeding, errors and configuration: what every other room may use."""
