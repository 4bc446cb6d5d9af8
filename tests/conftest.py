"""Property tests run without a deadline: how long an example takes says nothing on a machine that is shared."""

from hypothesis import settings

settings.register_profile("shared", deadline=None)
settings.load_profile("shared")
