"""`python -m hingerank` is the command line."""

import sys

from hingerank.cli import main

sys.exit(main())
