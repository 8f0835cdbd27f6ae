"""`python -m strongroom.appliance` is `strongroom-installer`."""

import sys

from strongroom.appliance.program import main

sys.exit(main())
