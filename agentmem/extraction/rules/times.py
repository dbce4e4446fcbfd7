"""Times that a clause states, told so that they are understood later: "yesterday" becomes the day that it was."""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from agentmem.text.temporal import parse_relative_range

_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_SHORT_WEEKDAYS = {
    "mon": "monday",
    "tue": "tuesday",
    "tues": "tuesday",
    "wed": "wednesday",
    "thu": "thursday",
    "thurs": "thursday",
    "fri": "friday",
    "sat": "saturday",
    "sun": "sunday",
}
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_MONTH = "|".join(_MONTHS)
_COUNT = r"(?:\d{1,3}|a|an|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)"
_DAY = r"(?:3[01]|[12]\d|0?[1-9])(?:st|nd|rd|th)?"
_PAST = (
    rf"(?:the\ day\ before\ yesterday|yesterday(?:\ (?:morning|afternoon|evening|night))?|last\ night|"
    rf"last\ (?:{'|'.join((*_WEEKDAYS, *_SHORT_WEEKDAYS))}|weekend|week|month|year)|{_COUNT}\ (?:day|week|month|"
    rf"year)s?\ ago)"
)
_VAGUE = (
    r"(?:(?:about|around|over|almost)\ )?(?:a\ few|several|a\ couple\ of|many|some)\ (?:day|week|weekend|month|"
    r"year)s?\ (?:ago|back)"
)
_FUTURE = (
    rf"(?:tomorrow(?:\ (?:morning|afternoon|evening|night))?|next\ (?:{'|'.join(_WEEKDAYS)}|weekend|week|month|year))"
)
_PRESENT = r"(?:today|tonight|this\ (?:morning|afternoon|evening|weekend|week|month|year))"
_CALENDAR_PERIOD = rf"(?:in|since|until|back\ in)\ (?:(?:{_MONTH})(?:,?\ (?:of\ )?(?:19|20)\d\d)?|(?:19|20)\d\d)"
_ON_DATE = rf"on\ (?:(?:{_MONTH})\ {_DAY}|{_DAY}(?:\ of)?\ (?:{_MONTH}))(?:,?\ (?:19|20)\d\d)?"
_DURATION = (
    rf"for\ (?:(?:about|over|almost|nearly|around|just\ under|just\ over|under)\ )?(?:{_COUNT}|a\ few|several|"
    rf"a\ couple\ of|many)\ (?:day|week|month|year)s?"
)

TIME_PATTERN = f"(?:{_PAST}|{_VAGUE}|{_FUTURE}|{_PRESENT}|{_CALENDAR_PERIOD}|{_ON_DATE})"
_TIME_EXPRESSION = re.compile(
    rf"(?:,\ |\b(?:just|only|early|late|earlier)\ |\b(?:about|around|back)\ )?\b(?:(?P<past>{_PAST})|"
    rf"(?P<vague>{_VAGUE})|"
    rf"(?P<future>{_FUTURE})|(?P<present>{_PRESENT})|(?P<dated>{_CALENDAR_PERIOD})|(?P<on>{_ON_DATE})|"
    rf"(?P<lasting>{_DURATION}))\b(?!['\u2019-])",
    re.IGNORECASE,
)
_UNPARSED_TIME = re.compile(
    r"\b(?:ago|yesterday|tomorrow|tonight|today|earlier|later|since|until|(?:last|next|this|that|past|previous|"
    r"upcoming) "
    r"(?:time|night|week|weekend|month|year|summer|winter|spring|fall|autumn|season|semester|term|"
    r"monday|tuesday|wednesday|thursday|friday|saturday|sunday|january|february|march|april|may|june|july|august|"
    r"september|october|november|december|morning|evening|afternoon|few|couple))\b|"
    r"\bthe \d{1,2}(?:st|nd|rd|th)\b|\b(?:on|by|this|coming) (?:mon|tues|wednes|thurs|fri|satur|sun)day\b(?!s)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class StatedTime:
    """What was said of the time: `phrase` stand for it in a claim, `start` is its first moment where that is clear.

    `tense` is past, present or future; "" where the words do not tell.
    """

    phrase: str = ""
    start: datetime | None = None
    tense: str = ""


def split_time(text: str, now: datetime | None) -> tuple[str, StatedTime] | None:
    """The text without its words for time, and that time; None when the time is not clear.

    Relative words need `now`, the moment of speaking: without one they are dropped. More than one expression, and one
    of a kind that is not known here, are not clear.
    """
    matches = list(_TIME_EXPRESSION.finditer(text))
    if len(matches) > 1:
        return None
    rest = _TIME_EXPRESSION.sub(" ", text)
    if _UNPARSED_TIME.search(rest):
        return None
    rest = re.sub(r"\s+([,.])", r"\1", " ".join(rest.split()))
    if not matches:
        return rest, StatedTime()
    time = _parse_time(matches[0], now)
    return None if time is None else (rest, time)


def _parse_time(match: re.Match[str], now: datetime | None) -> StatedTime | None:
    if words := match["dated"] or match["on"]:
        return _parse_calendar(words, now)
    if now is None:
        return StatedTime(tense="past" if match["past"] or match["vague"] else "future" if match["future"] else "")
    now = now if now.tzinfo else now.replace(tzinfo=UTC)
    if words := match["past"]:
        about = re.match(r"\s*(about|around)\b", match[0], re.IGNORECASE)
        return (
            StatedTime(f"about {words.lower()[:-4]} before {_render_day(now)}", None, "past")
            if about
            else _parse_past(words.lower(), now)
        )
    if words := match["vague"]:
        return StatedTime(f"{words.lower().rsplit(' ', 1)[0]} before {_render_day(now)}", None, "past")
    if words := match["lasting"]:
        return StatedTime(f"{words.lower()} as of {_MONTHS[now.month - 1]} {now.year}", None, "")
    if words := match["future"]:
        return _parse_future(words.lower(), now)
    return _parse_present(match["present"].lower(), now)


def _parse_past(words: str, now: datetime) -> StatedTime | None:
    words = re.sub(r"^yesterday .*", "yesterday", words)
    if words.startswith("last "):
        words = f"last {_SHORT_WEEKDAYS.get(words[5:], words[5:])}"
    span = parse_relative_range(words, now)
    if span is None:
        return None
    zone = now.tzinfo
    start, days = span[0].astimezone(zone), (span[1] - span[0]).days
    if "weekend" in words:
        return StatedTime(f"on the weekend of {_render_day(start)}", span[0], "past")
    if "week" in words and days == 7:
        return StatedTime(f"in the week of {_render_day(start)}", span[0], "past")
    return StatedTime(_render_period(start, days), span[0], "past")


def _render_period(start: datetime, days: int) -> str:
    if days <= 1:
        return f"on {_render_day(start)}"
    return f"in {_MONTHS[start.month - 1]} {start.year}" if days < 32 else f"in {start.year}"


def _parse_future(words: str, now: datetime) -> StatedTime | None:
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    unit = words.split()[1] if words.startswith("next") else "tomorrow"
    monday = today - timedelta(days=today.weekday())
    try:
        if unit == "year":
            return StatedTime(f"in {today.year + 1}", None, "future")
        if unit == "month":
            following = today.replace(day=1) + timedelta(days=monthrange(today.year, today.month)[1])
            return StatedTime(f"in {_MONTHS[following.month - 1]} {following.year}", None, "future")
        if unit == "week":
            return StatedTime(f"in the week of {_render_day(monday + timedelta(days=7))}", None, "future")
        if unit == "tomorrow":
            return StatedTime(f"on {_render_day(today + timedelta(days=1))}", None, "future")
    except OverflowError:
        return None
    return None  # "next Friday" is this week's to some and the week after's to others


def _parse_present(words: str, now: datetime) -> StatedTime | None:
    unit = words.rsplit(maxsplit=1)[-1]
    if unit == "weekend":
        if now.weekday() < 5:  # the one to come, or on a Monday the one that was
            return None
        return StatedTime(f"on the weekend of {_render_day(now - timedelta(days=now.weekday() - 5))}", None, "")
    if unit == "week":
        return StatedTime(f"in the week of {_render_day(now - timedelta(days=now.weekday()))}", None, "")
    if unit == "month":
        return StatedTime(f"in {_MONTHS[now.month - 1]} {now.year}", None, "")
    return StatedTime(
        f"in {now.year}" if unit == "year" else f"on {_render_day(now)}", None, "future" if unit == "tonight" else ""
    )


def _parse_calendar(words: str, now: datetime | None) -> StatedTime | None:
    """A date of the calendar. One without a year is kept as said: which year is meant is not known."""
    year, month = re.search(r"(?:19|20)\d\d", words), re.search(_MONTH, words, re.IGNORECASE)
    words = re.sub(r"^back ", "", words, flags=re.IGNORECASE)
    kind = words.split()[0].lower()
    if year is None:
        return None
    number = _MONTHS.index(month[0].capitalize()) + 1 if month else 1
    day = re.search(rf"(?<!\d){_DAY}(?!\d)", words.replace(year[0], "")) if kind == "on" else None
    try:
        begins = datetime(
            int(year[0]), number, int(re.sub(r"\D", "", day[0])) if day else 1, tzinfo=now.tzinfo if now else UTC
        )
    except ValueError:
        return None
    tense = "" if now is None or kind == "since" else "future" if begins.date() > now.date() else "past"
    return StatedTime(words[0].lower() + words[1:], None if kind == "until" else begins, tense)


def _render_day(moment: datetime) -> str:
    return f"{moment.day} {_MONTHS[moment.month - 1]} {moment.year}"


def parse_lead_time(lead: str, now: datetime | None) -> StatedTime | None:
    """The time that the words before a clause state ("Last week, "); None when it is not clear."""
    matches = list(_TIME_EXPRESSION.finditer(lead))
    if not matches:
        return StatedTime()
    return _parse_time(matches[0], now) if len(matches) == 1 else None
