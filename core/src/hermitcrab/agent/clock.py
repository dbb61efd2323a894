"""Time: the clock that sessions write, and the time zone that dates the daily notes."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo

Clock = Callable[[], datetime]


def system_clock() -> datetime:
    """Now, in UTC."""
    return datetime.now(UTC)


class HostZone(tzinfo):
    """The time zone of this machine, summer time included."""

    def utcoffset(self, moment: datetime | None) -> timedelta:
        return timedelta(seconds=self._local(moment).tm_gmtoff)

    def dst(self, moment: datetime | None) -> timedelta:
        return timedelta(0)

    def tzname(self, moment: datetime | None) -> str:
        return self._local(moment).tm_zone

    def fromutc(self, moment: datetime) -> datetime:
        offset = timedelta(seconds=time.localtime(moment.replace(tzinfo=UTC).timestamp()).tm_gmtoff)
        return moment + offset

    @staticmethod
    def _local(moment: datetime | None) -> time.struct_time:
        if moment is None:
            return time.localtime()
        return time.localtime(time.mktime(moment.replace(tzinfo=None).timetuple()))


def zone_of(name: str | None) -> tzinfo:
    """The zone of an IANA name; the machine's where there is none."""
    if name is None:
        return HostZone()
    from zoneinfo import ZoneInfo

    return ZoneInfo(name)


class RecordedClock:
    """A clock that shows the time of a recording and never goes back."""

    def __init__(self, start: datetime) -> None:
        self._now = start

    def __call__(self) -> datetime:
        return self._now

    def advance(self, moment: datetime | None) -> None:
        """Show ``moment``, unless it lies before what was shown already."""
        if moment is not None and moment > self._now:
            self._now = moment
