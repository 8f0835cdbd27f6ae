"""The benchmark of backups over the network: `python -m bench.network`."""
