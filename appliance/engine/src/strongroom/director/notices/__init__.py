"""Notices: people are notified of what is wrong, once, and when it is over.

`notice_service` runs it: it has the `watch_` modules look for conditions, stores incidents and
messages about them in the catalog (`incidents`, `outbox`), and sends those (`delivery`, by the
senders of `service.notices`) to the destinations of the configuration (`targets`). `reports` and
pings of runs go the same way.
"""
