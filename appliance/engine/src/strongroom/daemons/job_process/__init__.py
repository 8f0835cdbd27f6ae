"""Runs a job in a process of its own; the agent does so with its jobs, the director with its own.

Its modules:

    messages   the messages of both sides: JSON objects, one a line
    process    the daemon's side: starts the job process, reads its reports, stops and kills it
    program    the life of a job process, from its description to its last report
    input      reads messages to the job process while it works
    output     writes its reports
"""
