"""The benchmark of backups over the network: `make bench-network`."""
