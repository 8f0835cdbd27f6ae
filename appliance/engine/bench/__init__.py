"""`make bench`: Strongroom against its peers on this machine, in turns, from one run.

The runner makes its data sets and fetches the peers itself. Nothing here is imported by the
engine, and the runner uses only the standard library so that its own memory stays small.
"""
