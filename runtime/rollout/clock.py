"""The time that a trajectory has: `train.trajectory_timeout` as a clock that can stand still.

Where all trajectories get their completions together, one that waits for its own waits for the others, too. That time is not
its own: it is counted only while one of its walkers does something else.
"""

from __future__ import annotations

import asyncio


class Clock:
    """Runs while a walker moves, or always unless it `stops`; `limit` is entered by what has the time."""

    def __init__(self, seconds: float | None, stops: bool) -> None:
        self.seconds = seconds
        self.limit = asyncio.timeout(seconds)
        self._stops = stops and seconds is not None
        self._moving = 1
        self._left = 0.0  # while it stands

    def move(self, walkers: int) -> None:
        """So many more walkers move, or fewer where it is negative."""
        before, self._moving = self._moving, self._moving + walkers
        if not self._stops or bool(before) == bool(self._moving) or self.limit.expired():
            return
        now, end = asyncio.get_running_loop().time(), self.limit.when()
        if end is None:
            self.limit.reschedule(now + self._left)
        else:
            self._left = end - now
            self.limit.reschedule(None)
