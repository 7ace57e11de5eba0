"""A siege of sfl: hostile cases by the thousand, each made from a seed, each told in one line (docs/reliability.md).

A black box. It uses commands, public names and the names of files in run folders, and knows of nothing inside.
"""
