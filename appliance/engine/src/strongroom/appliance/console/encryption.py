"""What the menu does with an encrypted data disk: unlock it, and make its recovery key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strongroom.appliance.console.fields import Field
from strongroom.appliance.disks.tpm import new_recovery_key
from strongroom.appliance.disks.unlocking import unlock_and_start
from strongroom.appliance.paper import recovery_lines

if TYPE_CHECKING:
    from strongroom.appliance.console.screen import Screen


def unlock(screen: Screen) -> None:
    """Unlock the data disk."""
    field = Field("passphrase", "Passphrase", is_secret=True)
    passphrase = screen.ask("Unlock the data disk", [], field)
    if passphrase:
        unlock_and_start(passphrase, screen.log("Unlock the data disk"))
        screen.text("Unlock the data disk", ["The data disk is unlocked."])


def recovery_key(screen: Screen) -> None:
    """Show a new recovery key of the encrypted data disk, to be copied to paper."""
    title = "Recovery key of the data disk"
    field = Field("passphrase", "Passphrase", is_secret=True)
    lines = ["A new key is made; one that was made before opens nothing any more.", ""]
    passphrase = screen.ask(title, lines, field)
    if passphrase is not None:
        key = new_recovery_key(passphrase)
        screen.secret(title, recovery_lines(key), key)
