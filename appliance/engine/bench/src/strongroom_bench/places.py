"""Where the benchmark keeps its figures in the checkout it runs from."""

from __future__ import annotations

from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).resolve().parents[5]
ENGINE: Final = CHECKOUT / "appliance" / "engine"
# Raw figures, the pages that are written from them, and their pictures.
RESULTS: Final = ENGINE / "bench" / "results"
DOCUMENTS: Final = CHECKOUT / "docs"
# Data sets, peers and repositories; data sets and peers stay there.
WORK: Final = Path("/var/tmp/strongroom-bench")
