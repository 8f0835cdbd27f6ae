"""The header by which a request shows that no web page made it.

A browser adds the certificate of its user to whatever any web page requests. But a page cannot make
it send a header of its own to another site, in a form, a picture or a WebSocket. So the director
requires this one where something changes, and for streams; our clients always send it.
"""

from __future__ import annotations

from typing import Final

OWN_HEADER: Final = "Strongroom-Request"
# Any other text does as well.
OWN_HEADERS: Final = {OWN_HEADER: "1"}
# In answers to a token that ends soon: the second of its end, since 1970.
ENDS_HEADER: Final = "Strongroom-Token-Ends"
