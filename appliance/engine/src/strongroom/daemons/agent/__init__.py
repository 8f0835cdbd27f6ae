"""The agent: runs the jobs that directors ask for on this machine.

    service       the daemon: links to directors, reload, renewal, the end
    links         dials a director, or listens for it; again and again
    conversation  what is said over one connection
    supervisor    every run there is: waiting, under way, or ended and not yet acknowledged
    journal       a run's request and its reports, on disk until the director has them
    run_process   one job process, seen from the agent
    job           one job process, seen from inside; needs nothing of the above
    settings      what the configuration says; enrolment: how the agent comes by its certificate

The agent proper is one asyncio thread that holds no data. A job is a process of its own, which
reads a description on standard input and writes reports to standard output, so that a job that
is killed, runs out of memory or meets a fault of ours harms nothing else.
"""
