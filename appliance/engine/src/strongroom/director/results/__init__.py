"""The director's results: plain frozen data for its API and its commands.

The API returns those marked `served` directly, and OpenAPI describes them from here. Field names
are stable: new fields are added.

Times are unix nanoseconds and 0 where something has not happened. Paths are bytes. The id of a run
is 32 hexadecimal digits.
"""
