"""Sends notices to people: letters, the destinations of a configuration, and how they get there.

The director decides what to say and when, with an outbox; a machine without daemons says at the end
of a run how it went.
"""
