"""Notices: people are told of what is wrong, once, and when it is over.

`office` runs it: it has the `watch_` modules look for conditions, stores incidents and messages
about them in the catalog (`incidents`, `outbox`), and sends those (`delivery`, `senders`).
"""
