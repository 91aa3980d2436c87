"""`python -m busbw` is `busbw`."""

import sys

from busbw.cli import main

if __name__ == "__main__":
    sys.exit(main())
