"""The engine: repositories, what is stored in them, and the jobs that do it."""
