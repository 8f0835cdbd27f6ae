"""Settings of all tests: generated examples have no deadline, since machines are busy at times."""

from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
