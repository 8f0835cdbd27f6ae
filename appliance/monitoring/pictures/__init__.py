"""Pictures of the dashboards without Grafana: `python -m pictures PROMETHEUS INTO` draws them from a Prometheus.

It asks a Prometheus every query of the committed dashboards, and draws the panels with their units, thresholds, texts
and columns as SVG in a page of HTML. It is not a Grafana: what it shows is that each panel has data that make sense.
"""
