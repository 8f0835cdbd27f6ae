# Copyright: Strongroom
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)

from __future__ import annotations


class ModuleDocFragment:
    """Options of all that asks a director."""

    DOCUMENTATION = r"""
options:
  director:
    description:
      - Where the director is, C(https://NAME) or C(https://NAME:PORT), by a name that is in its certificate.
      - Without it, director, credential and authority are what C(~/.config/strongroom/console.toml) says, of the user
        that the task runs as. C(strongroom setup appliance) writes that file for root, so a task on the appliance
        needs none of these options.
      - The environment variable E(STRONGROOM_DIRECTOR) of that user is used where the option is not given.
    type: str
  token:
    description: A token of the API, as C(strongroom token create) makes it.
    type: str
  token_file:
    description: A file with such a token, on the host that the task runs on.
    type: path
  identity:
    description:
      - A folder with C(certificate.pem), C(key.pem) and C(authority.pem), on the host that the task runs on, as
        C(strongroom ca issue --role operator --folder) makes it.
      - It is only read. Commands such as C(strongroom status) renew the certificate in it.
    type: path
  authority:
    description:
      - A file with the certificate of the authority that the director must be of.
      - Without it that is C(authority.pem) of O(identity), or where there is no identity, what the system trusts.
    type: path
"""

    RUN = r"""
options:
  wait:
    description: Wait until the run has ended.
    type: bool
    default: true
  timeout:
    description: Wait so many seconds at most, then fail; the run continues. V(0) waits as long as it takes.
    type: int
    default: 0
  accept_incomplete:
    description: Warn, and do not fail, if the run is done but some files could not be read or restored.
    type: bool
    default: false
"""
