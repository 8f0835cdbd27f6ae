"""The Grafana dashboards, written in Python: `python -m dashboards` makes the JSON of the role."""
