"""Runs a job in its own process; the agent does so with its jobs, the director with its own.

Its modules:

    messages   the messages of both sides: JSON objects, one a line
    process    the daemon's side: starts the job process, reads its reports, stops and kills it
    program    the life of a job process, its input and its reports; a lost connection
"""
