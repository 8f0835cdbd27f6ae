"""The agent: runs the jobs that directors ask for on this machine.

    service       the daemon: connections to directors, reload, renewal, stop
    connections   dials directors, or listens for them, and reconnects
    conversation  the messages of one connection
    supervisor    all runs: waiting, active, or ended and not yet acknowledged
    journal       a run's request and its reports, on disk until the director has them
    settings      the settings from the configuration
    enrolment     how the agent gets its certificate
    jobs          the jobs; each in its own process (service.job_process)

The agent itself is one asyncio thread that holds no file data. A job process reads a description on
standard input and writes reports to standard output, so that a job that is killed, runs out of
memory or hits a bug does not affect anything else.
"""
