"""Dates as people say them in a clause: found, taken out, and resolved by the moment of speaking."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.resources import files

from agentmem.extraction.plain.verb_tense import Direction, find_direction, find_language
from agentmem.text.normalization import WEEKDAYS
from agentmem.text.temporal import MONTH_NUMBERS, parse_relative_range

_ACCENTS = str.maketrans(
    "\u00e1\u00e0\u00e2\u00e3\u00e4\u00e9\u00e8\u00ea\u00ed\u00ee\u00f3\u00f4\u00f5\u00f6\u00fa\u00fb\u00fc\u00e7\u00f1",
    "aaaaaeeeiioooouuucn",
)
_MONTH_NUMBERS = {**MONTH_NUMBERS, **{name.translate(_ACCENTS): number for name, number in MONTH_NUMBERS.items()}}
_MONTH = "|".join(sorted(_MONTH_NUMBERS, key=len, reverse=True))
_DAY = r"(?:3[01]|[12]\d|0?[1-9])(?:st|nd|rd|th|er|\.)?"
DATE = (
    rf"(?:{_DAY}(?: of| o'?| de)? (?:{_MONTH})\b(?:(?:,| de)? \d{{4}})?"
    rf"|(?:{_MONTH}) {_DAY}\b(?:,? \d{{4}})?|\d{{4}}-\d\d-\d\d"
    rf"|\d{{1,2}}[./]\d{{1,2}}[./]\d{{2,4}}"
    rf"|(?<=the )\d{{1,2}}(?:st|nd|rd|th)\b"
    r"(?! (?:of|floor|birthday|century|time|grade|place|avenue|street|anniversary)))"
)


def _list_words(name: str) -> Mapping[str, int]:
    """Words of five languages, without accents, by the number that each stands for."""
    first, *rows = _WORDS[name]
    return {word: number for number, row in enumerate(rows, first) for word in row.split("|") if word}


_WORDS = json.loads(files("agentmem.extraction.plain").joinpath("dates.json").read_text(encoding="utf-8"))
_DAYS_OF_WEEK, _SEASONS, _UNITS, _COUNTS, _DAYS_FROM_TODAY = map(
    _list_words, ("weekdays", "seasons", "units", "counts", "days_from_today")
)


def _join(words: Iterable[str]) -> str:
    return "|".join(sorted(words, key=len, reverse=True))


_LAST = r"last|(?:letzt|vorig|vergangen)e[snrm]?"
_NEXT = r"next|(?:nachst|kommend)e[snrm]?|proxim[oa]"
_LAST_AFTER, _NEXT_AFTER = "pasad[oa]|passad[oa]|dernier|derniere", "prochain|prochaine|que viene|que vem"
_PERIOD = rf"{_join(_UNITS)}|{_join(_DAYS_OF_WEEK)}|{_join(_SEASONS)}|{_MONTH}"
_COUNTED = rf"(?:\d{{1,3}}|{_join(_COUNTS)}) (?:{_join(_UNITS)})"
_ARTICLE = r"(?:(?:the|el|la|le|der|dem|den|o|a|dia) |l')?"
_SIDE = rf"(?:{DATE}|(?:{_MONTH})\b(?:(?: de)? \d{{4}})?|(?:19|20)\d\d|(?:{_join(_DAYS_OF_WEEK)})\b|{_DAY}(?=[ -]))"
_EXPRESSION = re.compile(
    rf"(?:,? )?(?<![\w-])(?:"
    rf"(?:(?:from|between|on|in|von|vom|zwischen|desde|del?|entre|du|em) )?{_ARTICLE}(?!\d{{4}}-\d\d)(?P<first>{_SIDE})"
    rf" ?(?:(?<= )(?:to|until|till|through|bis zum|bis|hasta|al?|au|(?P<and>and|und|y|et|e))(?= )|[-\u2013]) ?"
    rf"{_ARTICLE}(?P<second>{_SIDE})(?![\w/])"
    rf"|(?:(?P<until>until|till|up to|bis(?: zum)?|hasta|jusqu'(?:en|au|a))(?: (?:in|im|am))? ?"
    rf"|by "
    rf"|(?P<since>since|seit(?: dem)?|desde|depuis) "
    rf"|(?P<start>from|as of|starting(?: on)?|ab|a partir d[eo]|des|der) "
    rf"|(?P<target>to|for) (?=(?:the )?(?:{DATE}|{_join(_DAYS_OF_WEEK)}))"
    rf"|(?:back )?(?:on|in|at|am|im|en|em|au) |n[oa] (?=\w+(?:o|a|mes|fim)\b))?"
    rf"{_ARTICLE}(?P<core>(?P<date>{DATE})(?!\d)"
    rf"|(?P<ago>(?:vor|hace|il y a|ha) (?P<ago_count>{_COUNTED})|(?P<count_ago>{_COUNTED}) (?:ago|back|atras))(?![\w-])"
    rf"|(?P<ahead>(?<=in )|(?<=en )|(?<=em )|dans |dentro de |daqui a |in |en |em )"
    rf"(?P<ahead_count>{_COUNTED})(?![\w-])(?! ago)"
    rf"|(?P<week_after>{'|'.join(WEEKDAYS)}) week\b"
    rf"|(?P<before>(?P<last>{_LAST})|(?P<next>{_NEXT})|(?:this|diese[snrm]?|est[ea]|cet|cette|ce))"
    rf" (?P<unit>{_PERIOD})(?![\w-])"
    rf"|(?P<unit_before>{_PERIOD}) (?:(?P<last_after>{_LAST_AFTER})|(?P<next_after>{_NEXT_AFTER}))\b"
    rf"|(?P<part>start|beginning|middle|end) o[f']? (?:the )?(?P<of>(?:next )?month|{_MONTH})\b"
    rf"|(?P<month>(?:{_MONTH})(?:(?: de)? \d{{4}})?)(?! \d)(?=\W|\Z)"
    rf"|(?P<season>{_join(_SEASONS)})\b(?: (?:of |de )?(?P<season_year>(?:19|20)\d\d))?"
    rf"|(?P<year>(?:19|20)\d\d)\b"
    rf"|(?P<word>{_join(_DAYS_FROM_TODAY)})\b"
    rf"|(?P<weekday>{_join(_DAYS_OF_WEEK)})\b(?!s)))",
)
# "may", "march" and "fall" are verbs, too: a bare month or season needs a word before it that goes with dates.
_NEEDS_PREPOSITION = re.compile(
    r"\b(?:since|from|until|till|by|in|of|on|as of|im|en|em|ab|seit|bis|desde|hasta|a partir d[eo]|depuis|des|n[oa]"
    r"|jusqu'(?:en|au)|au)\b"
)
_MORNING = re.compile(r"\b(?:guten|am|jeden|heute|gestern|diesen|la|esta) \Z")  # "am Morgen", "esta mañana"
_ORDINAL_DAYS = frozenset({"segunda", "terca", "quarta", "quinta", "sexta"})  # "a segunda casa"


@dataclass(frozen=True, slots=True)
class SaidDate:
    """A date of a clause: its moment, whether it lies ahead, and whether it tells a beginning or an end.

    `core` is the stretch of the date without the words before it, `text` that stretch as it was typed.
    """

    moment: datetime
    is_future: bool
    is_until: bool
    days_ago: int
    span: tuple[int, int]
    core: tuple[int, int]
    text: str = ""
    end: datetime | None = None  # of an interval: the day that ends it
    is_since: bool = False


def find_dates(
    plain: str, now: datetime, direction: Direction | None = None, *, day_first: bool | None = None
) -> list[SaidDate]:
    """The dates of a text in plain form, in order. What no rule resolves is left in the text.

    Where no year is said the verb of the clause decides between the last and the next such day, unless `direction`
    does. `day_first` reads 05/07/2026; without it only where the language of the text is known to be day first.
    """
    out = []
    text = re.sub(r"\bat\u00e9\b", "bis", plain).translate(_ACCENTS)  # as long as before
    if day_first is None and find_language(plain) != "english":
        day_first = True
    for found in _EXPRESSION.finditer(text):
        told = find_direction(plain, found.start()) if direction is None else direction
        if _is_word(found, text, told):
            continue
        told = "past" if found["since"] else "future" if found["target"] else told
        if found["until"] or found["start"]:
            told = told if told == "past" else "future"
        try:
            days = (
                _resolve_interval(found, now, told)
                if found["second"]
                else (_resolve(found, now, told, day_first), None)
            )
        except (ValueError, OverflowError):
            continue
        if days is None or days[0] is None:
            continue
        core = found.span("core") if found["core"] else (found.start("first"), found.end("second"))
        out.append(
            SaidDate(
                days[0],
                days[0].date() > now.date(),
                found["until"] is not None,
                (now.date() - days[0].date()).days,
                found.span(),
                core,
                end=days[1],
                is_since=found["since"] is not None,
            )
        )
    return out


def _is_word(found: re.Match[str], text: str, direction: Direction) -> bool:
    """Whether what looks like a date may be another word here: "may", "fall", "morgen", "a segunda casa"."""
    if name := found["month"] or found["season"]:
        start = found.start("month" if found["month"] else "season")
        return not (re.search(r"\d", name) or _NEEDS_PREPOSITION.search(text[found.start() : start]))
    if found["weekday"] in _ORDINAL_DAYS:
        return re.search(r"\bn?a \Z", text[: found.start("weekday")]) is None
    if found["word"] in ("morgen", "manana"):
        return _MORNING.search(text[: found.start("word")]) is not None
    return found["word"] == "hier" and find_language(text) != "french"


def parse_said_range(
    words: str, now: datetime, told: str = "", direction: Direction | None = None
) -> tuple[datetime, datetime] | None:
    """The range of time that words mean when they are said at a moment, such as "last week" or "June"; None for none.

    It begins where the words do. Its length is a day, or the month or year that the words name. `told` is the text
    that says them: its verb decides between the last and the next June, unless `direction` does.
    """
    plain = " ".join(words.lower().split()).strip(" .,;!?")
    at = told.lower().find(plain)
    if direction is None:
        direction = find_direction(told.lower(), at) if at >= 0 else ""
    for text in (plain, f"in {plain}"):
        for found in find_dates(text, now, direction):
            if re.search(r"\d", text[: found.span[0]] + text[found.span[1] :]):
                break  # "11 years this summer"
            if found.end:
                return found.moment, found.end + timedelta(days=1)
            core = text[slice(*found.core)]
            year_alone, month_alone = re.fullmatch(r"\d{4}", core), re.fullmatch(rf"(?:{_MONTH})(?: \d{{4}})?", core)
            days = 365 if year_alone or core.endswith(" year") else 31 if month_alone or core.endswith(" month") else 1
            return found.moment, found.moment + timedelta(days=7 if core.endswith(" week") else days)
    return parse_relative_range(plain, now)


def parse_date(
    text: str, now: datetime, direction: Direction = "", *, day_first: bool | None = None
) -> datetime | None:
    """The day that a date names; one without a year is the last, the next or the nearest one, by `direction`."""
    day = re.search(r"\d{1,2}(?=st|nd|rd|th|\b)", text)
    month, year = re.search(_MONTH, text), re.search(r"\d{4}", text)
    try:
        if iso := re.fullmatch(r"(\d{4})-(\d\d)-(\d\d)", text):
            return datetime(int(iso[1]), int(iso[2]), int(iso[3]), tzinfo=UTC)
        if numeric := re.fullmatch(r"(\d{1,2})([./])(\d{1,2})\2(\d{2}|\d{4})", text):
            return _resolve_numeric(numeric, day_first)
        if day is None or (month is None and not re.fullmatch(r"\d{1,2}(?:st|nd|rd|th)", text)):
            return None
        if month is None:
            return _find_day(int(day[0]), now, is_past=direction == "past")
        moment = datetime(int(year[0]) if year else now.year, _month(month[0]), int(day[0]), tzinfo=UTC)
    except ValueError:
        return None
    return moment if year else _nearest(moment, now, direction)


def _resolve_numeric(numeric: re.Match[str], day_first: bool | None) -> datetime | None:
    """A day in numbers, where their order is clear. Raises ValueError for no day."""
    one, two, year = int(numeric[1]), int(numeric[3]), int(numeric[4])
    if numeric[2] == "." or one > 12:
        day_first = True
    elif two > 12:
        day_first = False
    if day_first is None and one != two:
        return None
    day, month = (one, two) if day_first else (two, one)
    return datetime(year if year > 99 else 2000 + year, month, day, tzinfo=UTC)


def _find_day(day: int, now: datetime, *, is_past: bool) -> datetime:
    """The next such day of a month from today on, or with `is_past` the last one. Raises ValueError for no day."""
    first = datetime(now.year, now.month, 1, tzinfo=UTC)
    for months in range(3):
        year, month = divmod(first.year * 12 + first.month - 1 + (-months if is_past else months), 12)
        try:
            moment = datetime(year, month + 1, day, tzinfo=UTC)
        except ValueError:
            continue
        if (moment.date() <= now.date()) if is_past else (moment.date() >= now.date()):
            return moment
    raise ValueError(day)


def _resolve(found: re.Match[str], now: datetime, direction: Direction, day_first: bool | None) -> datetime | None:
    """The first day of what a date names; None where it is not clear."""
    today = datetime(now.year, now.month, now.day, tzinfo=UTC)
    if found["date"]:
        return parse_date(found["date"], now, direction, day_first=day_first)
    if found["word"]:
        return today + timedelta(days=_DAYS_FROM_TODAY[found["word"]])
    if counted := found["ago_count"] or found["count_ago"]:
        return _add_units(today, counted, -1)
    if found["ahead_count"]:
        return _add_units(today, found["ahead_count"], 1)
    if found["part"]:
        return _resolve_part(found["part"], found["of"], today, direction)
    if found["week_after"]:  # "Saturday week": a week after the next one
        days = (WEEKDAYS.index(found["week_after"]) - today.weekday() - 1) % 7 + 1
        return today + timedelta(days=days + 7)
    if unit := found["unit"] or found["unit_before"]:
        is_last, is_next = found["last"] or found["last_after"], found["next"] or found["next_after"]
        return _resolve_relative(-1 if is_last else 1 if is_next else 0, unit, today)
    if found["season"] and found["season_year"]:
        return datetime(int(found["season_year"]), 3 + 3 * _SEASONS[found["season"]], 1, tzinfo=UTC)
    return _resolve_name(found["month"] or found["season"] or found["year"] or found["weekday"], today, direction)


def _resolve_name(name: str, today: datetime, direction: Direction) -> datetime | None:
    """The first day of a month, a season, a year or a weekday by its name."""
    if re.fullmatch(r"\d{4}", name):
        return datetime(int(name), 1, 1, tzinfo=UTC)
    if name in _DAYS_OF_WEEK:
        days = _DAYS_OF_WEEK[name] - today.weekday()
        if direction in ("past", "future"):
            return today + timedelta(days=-(-days % 7 or 7) if direction == "past" else days % 7 or 7)
        return None  # the last or the next one: not clear
    number = 3 + 3 * _SEASONS[name] if name in _SEASONS else _month(name.partition(" ")[0])
    if year := re.search(r"\d{4}", name):
        return datetime(int(year[0]), number, 1, tzinfo=UTC)
    days_long = 92 if name in _SEASONS else 31
    moment = _nearest(datetime(today.year, number, 1, tzinfo=UTC), today, direction, days=days_long)
    # what is planned for the running month is so by its end
    return moment if direction != "future" or moment > today else _end_month(moment)


def _resolve_interval(
    found: re.Match[str], now: datetime, direction: Direction
) -> tuple[datetime | None, datetime | None] | None:
    """Both days of an interval, None where one is not clear. Without a tense "Monday to Friday" is a habit."""
    first, second = found["first"], found["second"]
    if found["and"] and not re.search(r"\b(?:between|zwischen|entre) ", found[0]):
        return None  # two days
    if re.fullmatch(_DAY, first):
        if not (month := re.search(rf"(?:{_MONTH})\b(?: \d{{4}})?", second)):
            return None
        first = f"{first.rstrip('.')} {month[0]}"
    if re.fullmatch(_DAY, second):
        return None
    if not re.search(r"\d{4}", first) and (year := re.search(r"\b\d{4}\b", second)):
        first = f"{first} {year[0]}"
    ends = [
        _resolve_name(side, now.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=UTC), direction)
        if re.fullmatch(rf"(?:{_MONTH})(?:(?: de)? \d{{4}})?|\d{{4}}|{_join(_DAYS_OF_WEEK)}", side)
        else parse_date(side, now, direction)
        for side in (first, second)
    ]
    start, end = ends
    if start is None or end is None:
        return None
    while start > end:
        step = 7 if first in _DAYS_OF_WEEK else 365
        start, end = (start - timedelta(days=step), end) if direction == "past" else (start, end + timedelta(days=step))
    return _snap(start, first, now), _snap(end, second, now)


def _snap(moment: datetime, words: str, now: datetime) -> datetime:
    """A day that was moved by 365 days, on the day of the month that its words name."""
    named = parse_date(words, moment) if re.match(r"\d", words) and not re.fullmatch(r"\d{4}", words) else None
    if named is None and re.match(_MONTH, words) and moment.day != 1:
        return moment.replace(day=1) if moment.day < 15 else _end_month(moment) + timedelta(days=1)
    return named or moment


def _resolve_part(part: str, of: str, today: datetime, direction: Direction) -> datetime:
    """The first, the 15th or the last day of a month."""
    first = today.replace(day=1)
    if of in _MONTH_NUMBERS:
        first = _nearest(datetime(today.year, _month(of), 1, tzinfo=UTC), today, direction, days=31)
    elif of.startswith("next"):
        first = (first + timedelta(days=31)).replace(day=1)
    if part == "end":
        return _end_month(first)
    return first.replace(day=15) if part == "middle" else first


def _end_month(moment: datetime) -> datetime:
    return (moment.replace(day=1) + timedelta(days=31)).replace(day=1) - timedelta(days=1)


def _add_units(today: datetime, counted: str, sign: int) -> datetime:
    """So many days, weeks, months or years before or after today."""
    count, _, unit = counted.partition(" ")
    number = sign * (int(count) if count.isdigit() else _COUNTS[count])
    return today + timedelta(days=number * (1, 7, 30, 365, 7)[_UNITS[unit]])


def _resolve_relative(step: int, unit: str, today: datetime) -> datetime | None:
    """The first day of the last, this or next week, month and so on."""
    monday = today - timedelta(days=today.weekday())
    if unit in _DAYS_OF_WEEK:  # "next Friday" and "this Friday" are two days to some and one to others
        return _resolve_name(unit, today, "past") if step < 0 else None
    if unit in _SEASONS or unit in _MONTH_NUMBERS:
        return _resolve_name(unit, today, "past" if step < 0 else "future") if step else None
    kind = _UNITS[unit]
    if kind == 4:
        return monday + timedelta(days=5 + 7 * step)
    if not step or kind == 0:
        return None if kind == 0 else today
    if kind == 1:
        return monday + timedelta(days=7 * step)
    year, month = divmod(today.year * 12 + today.month - 1 + step, 12)
    return datetime(year, month + 1, 1, tzinfo=UTC) if kind == 2 else datetime(today.year + step, 1, 1, tzinfo=UTC)


def _nearest(moment: datetime, now: datetime, direction: Direction, *, days: int = 1) -> datetime:
    """A day or period without a year: the last, the next, or up to three months back, else the next one."""
    back = timedelta(days={"future": days - 1, "past": 0, "": 60 if days == 1 else 92}[direction])
    is_over = moment.date() < (now - back).date()
    years = -int(moment > now) if direction == "past" else int(is_over)
    try:
        return moment.replace(year=moment.year + years)
    except ValueError:  # 29 February
        return moment.replace(year=moment.year + years, day=28)


def _month(name: str) -> int:
    return _MONTH_NUMBERS[name]
