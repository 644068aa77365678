"""``python -m daydream``."""

import sys

from daydream.cli.main import main

sys.exit(main())
