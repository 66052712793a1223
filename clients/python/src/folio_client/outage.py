"""For how long a stream has been without a server, and when to try again."""

WAIT_FIRST, WAIT_MOST = 0.2, 5.0
"""Seconds before the second try, and before any."""
STOOD_LEAST = 5.0
"""Seconds that a connection has to stand to count as one, if nothing was told over it."""


def wait_before(tried: int, told: float | None) -> float:
    """Seconds to wait after `tried` tries more than one: what the server says, or twice as long each time."""
    # No more doublings than it takes: a stream may try for days.
    return min(WAIT_MOST, WAIT_FIRST * 2.0 ** min(tried, 16) if told is None else told)


class Outage:
    """The time since the last connection that was of any use, of at most `most` seconds."""

    def __init__(self, most: float) -> None:
        self._most = most
        self._since: float | None = None
        self._tried = 0

    def is_over(self) -> None:
        """There was a server, whatever comes next."""
        self._since, self._tried = None, 0

    def pause(self, now: float, told: float | None = None) -> float | None:
        """Seconds until the next try, of which the last is at the very end; `told` is what a busy server asks for. None if it
        has lasted too long."""
        if self._since is None:
            self._since = now
        left = self._since + self._most - now
        if left <= 0:
            return None
        pause = wait_before(self._tried, None) if told is None else max(WAIT_FIRST, told)
        self._tried += 1
        return min(left, pause)
