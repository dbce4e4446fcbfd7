"""Calendar dates that an English query names, as a hint for ranking."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

MONTH_MATCH_SCORE = 0.3
"""What a date is worth that fits the year and month but not the day that was named (measured on LoCoMo)."""

_MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_MONTH_NUMBERS = {name: n for n, name in enumerate(_MONTHS, 1)} | {name[:3]: n for n, name in enumerate(_MONTHS, 1)}
_MONTH_NUMBERS["sept"] = 9
_UNAMBIGUOUS_MONTHS = frozenset(_MONTHS) - {"march", "may"}

_DAY = r"(?:3[01]|[12]\d|0?[1-9])(?:st|nd|rd|th)?(?!\w)"
_YEAR = re.compile(r"(?<![\w.,$€£])(?:19|20)\d\d(?![\w%]|[.,]\d)")
_ISO_DATE = re.compile(r"(?<![\w-])((?:19|20)\d\d)[-/](0?[1-9]|1[0-2])(?:[-/](3[01]|[12]\d|0?[1-9]))?(?=t\d|[^\w-]|$)")
_NUMERIC_DATE = re.compile(r"(?<![\w/.])(\d{1,2})([/.])(\d{1,2})\2((?:19|20)?\d\d)(?![\w/])")
_MONTH_MENTION = re.compile(
    rf"(?P<before>(?<!\w)(?P<day>{_DAY})\s(?:of\s)?|\b(?:in|of|on|during|early|late|mid|since|until|till|last|next)\s)?"
    rf"\b(?P<name>{'|'.join(_MONTHS)}|jan|feb|mar|apr|jun|jul|aug|sept|sep|oct|nov|dec)\b\.?"
    rf"(?P<after>\s(?P<day_after>{_DAY})|,?\s\d)?"
)


@dataclass(frozen=True, slots=True)
class DateHint:
    """The years, months (1-12) and days of the month that a query names; days only together with a month."""

    years: frozenset[int]
    months: frozenset[int]
    days: frozenset[int]

    def match(self, year: ArrayLike, month: ArrayLike, day: ArrayLike) -> NDArray[np.float32]:
        """Return how well each date fits, float32 of the arguments' shape.

        1 where year and month are among those named (or none was) and the day is, or none was; 0.3 where only the day
        differs; else 0. All 0 for a hint without year and month.
        """
        import numpy as np

        if not (self.years or self.months):
            return np.zeros(np.shape(year), np.float32)
        fits = np.ones(np.shape(year), bool)
        if self.years:
            fits &= np.isin(year, list(self.years))
        if self.months:
            fits &= np.isin(month, list(self.months))
        worth = np.where(np.isin(day, list(self.days)), 1.0, MONTH_MATCH_SCORE) if self.days else 1.0
        return np.where(fits, worth, 0.0).astype(np.float32)


def parse_date_hint(text: str) -> DateHint | None:
    """Return the calendar dates that `text` names; None when it names no year and no month.

    `may`, `march` and abbreviations count only beside a day, a year or a word like "in". 5/8/2023 is read both ways.
    """
    low = text.lower()
    years = {int(found) for found in _YEAR.findall(low)}
    months: set[int] = set()
    days: set[int] = set()
    for found in _MONTH_MENTION.finditer(low):
        if found["name"] in _UNAMBIGUOUS_MONTHS or found["before"] or found["after"]:
            months.add(_MONTH_NUMBERS[found["name"]])
            days |= {int(day.rstrip("stndrh")) for day in (found["day"], found["day_after"]) if day}
    for iso in _ISO_DATE.finditer(low):
        years.add(int(iso[1]))
        months.add(int(iso[2]))
        days |= {int(iso[3])} if iso[3] else set()
    for numeric in _NUMERIC_DATE.finditer(low):
        _add_numeric_date(numeric, years, months, days)
    return DateHint(frozenset(years), frozenset(months), frozenset(days)) if years or months else None


def _add_numeric_date(match: re.Match[str], years: set[int], months: set[int], days: set[int]) -> None:
    """Add both readings of a date like 5/8/2023 to the sets; what cannot be a date adds nothing."""
    if match[2] == "." and len(match[4]) < 4:
        return  # 1.2.23 is a version more often than a date
    one, two = int(match[1]), int(match[3])
    readings = [(m, d) for m, d in ((one, two), (two, one)) if 1 <= m <= 12 and 1 <= d <= 31]
    if readings:
        years.add(int(match[4]) if len(match[4]) == 4 else 2000 + int(match[4]))
    for month, day in readings:
        months.add(month)
        days.add(day)
