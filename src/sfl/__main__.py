"""`python -m sfl` is the command `sfl`."""

import sys

from sfl.cli import main

if __name__ == "__main__":
    sys.exit(main())
