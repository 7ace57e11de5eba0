"""A siege of sfl: hostile cases by the thousand, each made from a seed, each told in one line (reliability.md).

A black box. It uses commands, public names and the names of files in run folders, and knows of nothing inside.
"""

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"  # before numpy loads: a process with threads cannot be forked safely
