"""Instants as text: ISO 8601 in UTC with milliseconds and `Z`, so that comparing the texts compares the times."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_ISO = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?(Z|[+-][0-9]{2}:[0-9]{2})"
)
_PRINTED = re.compile(
    r"(?!0000)[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\.[0-9]{3}Z"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_2000_YEARS_MS = 5 * 146_097 * 86_400_000
_AFTER_9999_MS = 253_402_300_800_000


def find_instant(value: object) -> str | None:
    """Return `value` as `YYYY-MM-DDTHH:MM:SS.mmmZ`, or None when it is no instant with a zone.

    Takes ISO 8601 text or an aware datetime. What is finer than a millisecond is cut off, as JavaScript does.
    """
    if isinstance(value, str) and _PRINTED.fullmatch(value):
        return value  # as nearly every instant comes: on a day that every month has
    try:
        if isinstance(value, datetime):
            return _printed(value) if value.tzinfo is not None else None
        return _read(value) if isinstance(value, str) else None
    except (ValueError, OverflowError):  # no such day or hour, or outside the years 1 to 9999
        return None


def _read(text: str) -> str | None:
    match = _ISO.fullmatch(text)
    if match is None:
        return None
    seconds, fraction, zone = match.groups()
    milliseconds = f"{fraction or ''}000"[:3]
    moment = datetime.fromisoformat(f"{seconds}.{milliseconds}{'+00:00' if zone == 'Z' else zone}")
    return f"{seconds}.{milliseconds}Z" if zone == "Z" else _printed(moment)


def instant_of_ms(milliseconds: int) -> str:
    """Return the instant that many milliseconds after 1970; from the year 10000 on as `+010000-…`."""
    if milliseconds < _AFTER_9999_MS:
        return _printed(_EPOCH + timedelta(milliseconds=milliseconds))
    earlier = instant_of_ms(milliseconds - _2000_YEARS_MS)  # the calendar repeats itself every 400
    return f"+{int(earlier[:4]) + 2000:06d}{earlier[4:]}"


def _printed(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
