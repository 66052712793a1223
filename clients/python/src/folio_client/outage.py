"""Measures how long a stream has been without a server, and decides when to reconnect."""

WAIT_FIRST, WAIT_MOST = 0.2, 5.0
"""Seconds before the second try, and the most before any later one."""
STOOD_LEAST = 5.0
"""Seconds after which a connection counts as one even if no event came over it."""


def wait_before(tried: int, told: float | None) -> float:
    """Returns the seconds to wait after `tried` retries: what the server says, or twice as long each time."""
    # The exponent is limited, since a stream may retry for days.
    return min(WAIT_MOST, WAIT_FIRST * 2.0 ** min(tried, 16) if told is None else told)


class Outage:
    """The time since the last useful connection, of at most `most` seconds."""

    def __init__(self, most: float) -> None:
        self._most = most
        self._since: float | None = None
        self._tried = 0

    def is_over(self) -> None:
        """Records that there was a server, so a new outage starts from the beginning."""
        self._since, self._tried = None, 0

    def pause(self, now: float, told: float | None = None) -> float | None:
        """Returns the seconds until the next try, the last of which is at the very end of the outage. `told` is the
        pause that a busy server asks for. Returns None if the outage has lasted too long."""
        if self._since is None:
            self._since = now
        left = self._since + self._most - now
        if left <= 0:
            return None
        pause = wait_before(self._tried, None) if told is None else max(WAIT_FIRST, told)
        self._tried += 1
        return min(left, pause)
