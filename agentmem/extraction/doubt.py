"""Whether a later turn casts doubt on a belief: it names the belief and has a word of change.

Words are compared, no sentence is understood. The lists stand in `words/<language>.json`: `end` and `doubt` are words
of change, `small` are changes of small things, `kind_<group>` name what a slot is about, and `ends_<group>` name that
and its change at once. `words/slots.json` says which slots belong to a group. In a list `_` stands for one word, and
`*` for the rest of one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from agentmem.beliefs.slots import PEOPLE_SLOTS, USER_SUBJECT
from agentmem.extraction.plain.turn_text import MASK, TurnText
from agentmem.extraction.said_words import WORD, find_languages, fold, is_said, list_words, load_words

MAX_SENTENCE_CHARS = 240
MAX_APART = 45  # characters between a word of change and what changes
ELIDED_WORDS = 3  # among which a sentence without a subject names the change: "Finally sold the Volvo"
_GROUP = "kind_"
_LIVING = PEOPLE_SLOTS | {"car"}  # these may end without the user
_ELISION = re.compile(r"(?<= )([cdjlmnst]|qu)'(?=\w)")
_NOTHING = re.compile(r"(?!)")


@dataclass(frozen=True, slots=True)
class Held:
    """A belief that may come into doubt; `names` are more names of its subject, such as "sister"."""

    subject: str
    slot: str
    value: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChangeSentence:
    """A sentence that tells of a change: where it stands in its turn, its words, and those without small changes."""

    span: tuple[int, int]
    text: str
    plain: str
    languages: tuple[str, ...]

    def find(self, *names: str) -> re.Match[str] | None:
        """The first word of these lists."""
        return _compile(self.languages, *names).search(self.plain)

    def has(self, *names: str) -> bool:
        """Whether a word of these lists stands in the sentence as it was said."""
        return _compile(self.languages, *names).search(self.text) is not None


def find_doubt(belief: Held, changes: Iterable[ChangeSentence]) -> tuple[int, int] | None:
    """Which of these sentences of a user's turn casts doubt on a belief, as a span of characters; None for none."""
    is_event = belief.slot.partition(":")[0] in load_words().slots["events"]
    for line in changes:
        if is_event:
            if _names_moved_event(belief, line):
                return line.span
        elif (change := _find_change(belief, line)) and _is_about(belief, line, change):
            return line.span
    return None


def list_changes(turn: TurnText) -> Iterator[ChangeSentence]:
    """The sentences that tell of a change: statements of what is so, with a word of change or a negation."""
    languages = find_languages(turn.plain.replace(MASK, " "))
    names = ("end", "doubt", "parted", *(name for name in load_words().lists if name.startswith("ends_")))
    for sentence in turn.sentences:
        if sentence.is_question or sentence.is_masked or len(sentence.text) > MAX_SENTENCE_CHARS:
            continue
        text = _ELISION.sub(r"\1' ", f" {' '.join(WORD.findall(fold(sentence.text)))} ")
        span = (sentence.start, sentence.start + len(sentence.text))
        line = ChangeSentence(span, text, _compile(languages, "small").sub("-", text), languages)
        is_unsaid = line.has("still") or _compile(languages, "suppose", "plan", "unreal").search(line.plain)
        if not is_unsaid and (line.find(*names) or line.has("negation")):
            yield line


def _find_change(belief: Held, line: ChangeSentence) -> re.Match[str] | None:
    """The words by which a sentence says that a belief changed."""
    groups = _list_groups(belief.slot)
    if at_once := line.find(*(f"ends_{name.removeprefix(_GROUP)}" for name in groups)):
        return at_once
    value = _find_value(belief, line)
    if value and value[0].isalpha() and (denied := _find_denial(value[0], line)):
        return denied
    is_person = belief.slot in PEOPLE_SLOTS
    changes = _compile(line.languages, *(("parted",) if is_person else ("end", "doubt", "parted")))
    kind = None if line.plain != line.text else _find_kind(belief, line, groups)
    for change in changes.finditer(line.plain):
        for named in filter(None, (value, kind)):
            if abs(named.start() - change.start()) <= MAX_APART and not _overlap(named, change):
                return change
    return None


def _names_moved_event(belief: Held, line: ChangeSentence) -> bool:
    """Whether a sentence says that the event is moved or called off: "The release slips to 10 April"."""
    if line.find("ends_event") is None or _compile_others(line.languages, belief.slot).search(line.plain):
        return False
    sought = list_words(belief.slot.partition(":")[2])[-1:]
    return any(is_said(word, frozenset(list_words(line.plain))) for word in sought)


def _list_groups(slot: str) -> list[str]:
    """The lists that name what a slot is about."""
    return [name for name, slots in load_words().slots.items() if name.startswith(_GROUP) and slot in slots]


def _overlap(one: re.Match[str], other: re.Match[str]) -> bool:
    return one.start() < other.end() and other.start() < one.end()


def _find_value(belief: Held, line: ChangeSentence) -> re.Match[str] | None:
    """A word of the value, or a translation of one; its possessive is another thing."""
    words = load_words()
    empty = words["function"] | words["negation"] | words["light"] | words["plain"]
    said = [word for word in list_words(belief.value.partition(" (")[0]) if len(word) > 1 and not word.isdigit()]
    wanted = [word for word in said if word not in empty]
    for found in re.finditer(r"(?<= )[^ -]\S*(?= )", line.plain):
        word = found[0]
        if not word.endswith("'s") and word not in empty and any(_is_form(each, word) for each in wanted):
            return found
    return None


def _is_form(wanted: str, word: str) -> bool:
    is_longer = len(wanted) > 4 and word.startswith(wanted[:-1]) and len(word) <= len(wanted) + 2
    return word == wanted or is_longer or (is_said(wanted, frozenset((word,))) and wanted[:3] != word[:3])


def _find_denial(word: str, line: ChangeSentence) -> re.Match[str] | None:
    """A negation just before the value: "in Lund, not Malmo"."""
    negations = "|".join(map(re.escape, load_words(line.languages)["negation"]))
    return re.search(rf"(?<= )(?:{negations}) (?={re.escape(word)} )", line.plain) if negations else None


def _find_kind(belief: Held, line: ChangeSentence, groups: list[str]) -> re.Match[str] | None:
    """A word for what the slot is about; for a person what they are to the user, as in "my dog"."""
    if kin := load_words(line.languages).kin.get(belief.slot):
        own = "|".join(load_words(line.languages)["own"])
        return re.search(rf"(?<= )(?:{own}) (?:{'|'.join(map(re.escape, kin))})(?= )", line.plain)
    return line.find(*groups)


def _is_about(belief: Held, line: ChangeSentence, change: re.Match[str]) -> bool:
    """Whether the speaker speaks of themselves, or of the subject of the belief."""
    if belief.subject != USER_SUBJECT:
        names = {fold(each) for name in (belief.subject, *belief.names) for each in (name, name.split()[0])}
        return any(f" {name} " in line.plain[: change.start() + 1] for name in names)
    words = load_words(line.languages)
    first = _compile(line.languages, "first", "self")
    # "they let me go", "they fired me"
    if first.search(f" {change[0]} ") or _compile(line.languages, "object").match(line.plain, change.end() + 1):
        return True
    other = _compile_others(line.languages, belief.slot).search(line.plain)
    start = min(change.start(), other.start() if other else change.start())
    before = first.search(line.plain[: start + 1])
    if other and other.start() < change.start():
        shares = first.match(line.plain, other.end() + 1) if other["and"] else None
        return before is not None or shares is not None
    if line.text.split(maxsplit=1)[0] in words["third"]:
        return line.has("own")
    if before or (belief.slot in _LIVING and _find_value(belief, line)):
        return True
    leading = line.plain[: change.start()].split()
    neutral = (words["function"] | words["opening"]) - words["third"] - words["addressee"]
    return len(leading) < ELIDED_WORDS and neutral.issuperset(leading)


@cache
def _compile(languages: tuple[str, ...], *names: str) -> re.Pattern[str]:
    """What finds a phrase of these lists in a line; a word that is `weak` says too little alone."""
    words = load_words(languages)
    phrases = sorted({phrase for name in names for phrase in words[name]} - words["weak"], key=len, reverse=True)
    texts = [re.escape(each).replace("_", r"\S+").replace(r"\*", r"\S*") for each in phrases]
    return re.compile(rf"(?<= )(?:{'|'.join(texts)})(?= )") if texts else _NOTHING


@cache
def _compile_others(languages: tuple[str, ...], slot: str) -> re.Pattern[str]:
    """What finds somebody else as the one who is spoken of: "my sister", "her old boss", not whom the slot holds."""
    words = load_words(languages)
    named = frozenset[str]().union(*(words[name] for name in _list_groups(slot)))
    kin = words.all_kin - words.kin.get(slot, frozenset()) - named
    owners = words["own"] | words["theirs"] | words["article"]
    joined = "|".join(words["and"])
    people, whose = ("|".join(map(re.escape, sorted(each))) for each in (kin, owners))
    return re.compile(rf"(?<= )(?:{whose}) (?:\S+ ){{0,2}}(?:{people})(?:'s)?(?= )(?P<and> (?:{joined})(?= ))?")
