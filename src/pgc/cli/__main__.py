"""`python -m pgc.cli` is `pgc`."""

import sys

from pgc.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
