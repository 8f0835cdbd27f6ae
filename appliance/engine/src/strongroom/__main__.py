"""`python -m strongroom` is `strongroom`."""

import sys

from strongroom.cli.main import main

sys.exit(main())
