"""The appliance as a machine: first boot, answer file, installer, and the menu on its console."""
