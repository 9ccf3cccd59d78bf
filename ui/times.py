"""Times and durations as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import streamlit as st


def zone() -> ZoneInfo:
    """The browser's zone; UTC where it does not say."""
    try:
        return ZoneInfo(st.context.timezone or "UTC")
    except (ZoneInfoNotFoundError, ValueError):
        return ZoneInfo("UTC")


def at(moment: datetime) -> str:
    """A moment with its zone, e.g. ``30 Nov 14:05:09 CET``; with the year where it is another one than this."""
    there = moment.astimezone(zone())
    year = "" if there.year == datetime.now(zone()).year else " %Y"
    return there.strftime(f"%-d %b{year} %H:%M:%S %Z")


def ago(moment: datetime, now: datetime | None = None) -> str:
    """e.g. ``3 min ago``. ``now``: when what tells of the moment was read, by the clock that the moment comes from;
    null: the moment is by this machine's."""
    return f"{lasting((now or datetime.now(UTC)) - moment)} ago"


def lasting(duration: timedelta) -> str:
    """e.g. ``45 s``, ``12 min``, ``3 h 5 min``, ``2 d 4 h``."""
    seconds = max(0, round(duration.total_seconds()))
    if seconds < 90:
        return f"{seconds} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 36:
        return f"{hours} h {minutes} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"
