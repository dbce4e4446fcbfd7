"""Whom a clause is about, and who is named as whose partner, child, boss or pet."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from agentmem.beliefs.slots import USER_SUBJECT
from agentmem.extraction.frames.frame_set import FrameSet
from agentmem.extraction.frames.plain_text import PlainSentence
from agentmem.extraction.frames.slot_claim import SlotClaim
from agentmem.extraction.frames.words import (
    ADJECTIVES,
    COMMON_NOUNS,
    COUNTS,
    NAME_VERBS,
    NO_NAME,
    OTHER_SUBJECT,
    OWNER,
    PRONOUN,
    REPORTED,
    SELF,
)

_TITLES = frozenset({"mr", "mrs", "ms", "miss", "dr", "prof", "professor"})
# "me dad passed" names nobody.
_VERB_FORM = re.compile(r"(?:[^aeiou]ed|ing?|died|gone|come|came|said|rang|went|got|fell|hates|loves)\Z")
_NAMES_LIKE_VERBS = frozenset(
    name
    for line in (
        "alfred fred mildred wilfred winifred ned ted colin martin robin kevin gavin",
        "justin benjamin erin caitlin edwin franklin quentin calvin darin devin melvin",
    )
    for name in line.split()
)
_ONE_PERSON = frozenset({"boss", "partner", "landlord"})
# By slot and gender: the English noun for somebody who was named in another language.
_ENGLISH_NOUNS = {
    "siblingsf": "sister",
    "siblingsm": "brother",
    "childrenf": "daughter",
    "childrenm": "son",
    "parentsf": "mother",
    "parentsm": "father",
    "partnerf": "wife",
    "partnerm": "husband",
    "landlordf": "landlady",
}


@dataclass
class TalkState:
    """What a reader keeps from turn to turn: who was named, and which thing and event were spoken of last.

    `kin` are the people of the user's by what they are to them ("mum", "sister"), where that is one person alone.
    """

    people: dict[str, str] = field(default_factory=dict)  # names in small letters, as they are written
    kin: dict[str, str] = field(default_factory=dict)
    gender: dict[str, str] = field(default_factory=dict)
    named_before: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    question: str = ""  # that was asked last
    topic: str = ""  # whom the question was about: a name, "he" or "she"
    elided: str = ""  # whom a sentence without a subject is about, where it goes on about somebody
    pending_event: str = ""  # that was named without a date in the sentence before
    last_event: tuple[str, str] | None = None
    last_thing: str = ""


class PeopleReader:
    """Names and pronouns of one speaker's turns, in their order."""

    def __init__(self, frames: FrameSet, people: Iterable[str], kin: Mapping[str, str]) -> None:
        self.frames = frames
        self.talk = TalkState(people={name.lower(): name for name in people if name})
        for noun, name in kin.items():
            self._note_kin(frames, noun, name)
        noun, name_pattern = frames.noun_pattern, frames.name_pattern
        self._kin_name = re.compile(rf"{OWNER} {ADJECTIVES}(?:{noun}),? (?P<name>{name_pattern}),?\s")
        self._kin_alone = re.compile(rf"(?:{OWNER} )?(?P<noun>{noun})\s")
        self._name = re.compile(rf"(?P<our>our )?(?P<name>{name_pattern}),?\s")
        self._mine = re.compile(
            rf"\b(?:{OWNER}|(?:i|we) (?:have|have got|got) an?) (?P<adj>{ADJECTIVES})(?P<noun>{noun})"
            rf"(?P<link>,? (?:is )?(?:called |named )| is |,? )(?P<name>{name_pattern})"
        )
        self._pronoun = re.compile(
            rf"(?P<pronoun>she|he) is (?P<now>now )?"
            rf"(?:(?:my|our|me) {ADJECTIVES}(?P<noun>{noun})|(?:the )?(?P<chief>boss|gaffer|landlord|landlady))\b"
        )
        # "Ann, my wife," and "our gemma me daughter"; "lad lee drives a van", "landlord mr bashir wants more"
        self._apposed = re.compile(
            rf"(?:^|[,.:;] |\b(?:and|with|for|our|wor|to) )"
            rf"(?P<name>(?!(?:our|wor|my|me|the|and)\b)[^\W\d_][\w'-]+(?: (?!me\b|my\b)[^\W\d_][\w'-]+)?)"
            r",? (?:my|our|me|the(?= (?:wife|missus|husband|gaffer|boss|landlord|landlady)\b)) "
            rf"{ADJECTIVES}(?P<noun>{noun})"
            r"(?=\s*(?:[.;!]|$)|,(?! and [^\W\d_]+(?:$|[,.]| and))"
            r"| (?:who|which|she|he|has|is|was|says|wants|gave|put|got)\b)"
        )
        self._bare = re.compile(
            rf"^(?:and |so |oh |well |aye |the )*(?P<noun>{noun}) "
            r"(?P<name>(?:mr|mrs|ms|miss|dr)\.? [^\W\d_]+|[^\W\d_][\w'-]+)"
            r"(?=\s*,|\s(?:is|was|has|had|wants|says|said|lives?|works?|drives?|got|gets|moved|goes|likes|loves|hates|rang|can)\b)"
        )
        self._theirs = re.compile(
            rf"(?:^|[,.:;] |\band |\b(?P<since>(?:from|as of|since) [\w ]{{3,20}}?,? ))(?P<name>{name_pattern})(?:'s?)?"
            r" (?:is(?P<already> now)?|first day as|takes over as|took over as|has taken over as)"
            rf" (?:my|our|me) (?P<new>new )?(?P<noun>{noun})\b(?P<now> now)?"
        )

    # -- whom a clause is about

    def find_subject(self, sentence: PlainSentence, at: int) -> tuple[str | None, int]:
        """Who the clause is about, and where its verb begins; None where it names nobody, "" where it is not clear."""
        plain = sentence.plain
        if found := SELF.match(plain, at):
            return USER_SUBJECT, skip_space(plain, found.end())
        if found := PRONOUN.match(plain, at):
            return self._resolve_pronoun(found["pronoun"], plain[:at]) or "", skip_space(plain, found.end())
        if (found := self._kin_name.match(plain, at)) and self._is_kin_name(sentence, found):
            name, end = self.trim_name(sentence, found.start("name"), found["name"])
            self.note(name)
            return name, skip_space(plain, end)
        if (at == 0 and (found := self._bare.match(plain))) and self._is_apposed_name(sentence, found):
            name, end = self.trim_name(sentence, found.start("name"), found["name"])
            self.note(name)
            return name, skip_space(plain, end)
        if found := self._kin_alone.match(plain, at):
            person = self.talk.kin.get(_kin_key(self.frames, found["noun"]), "")
            return (person, skip_space(plain, found.end())) if person else (None, at)
        if (found := self._name.match(plain, at)) and self._is_subject_name(sentence, found):
            name, end = self.trim_name(sentence, found.start("name"), found["name"])
            return self._find_full_name(name), skip_space(plain, end)
        return None, at

    def _find_full_name(self, name: str) -> str:
        """The full name of the only known person whose first name this is; the name itself where it is known, too."""
        if name.lower() in self.talk.people or " " in name:
            return name
        full = [each for known, each in self.talk.people.items() if known.startswith(f"{name.lower()} ")]
        return full[0] if len(full) == 1 else name

    def is_other_subject(self, sentence: PlainSentence, at: int) -> bool:
        """Whether a clause begins with a subject that is not read: "my neighbor", "the team", "her mother"."""
        return OTHER_SUBJECT.match(sentence.plain, at) is not None

    def is_known(self, subject: str) -> bool:
        """Whether the subject is the user or somebody who was named before."""
        return subject == USER_SUBJECT or subject.lower() in self.talk.people

    def note(self, name: str) -> None:
        """Remember that somebody was named."""
        self.talk.people.setdefault(name.lower(), name)
        self.talk.named = tuple(dict.fromkeys((*self.talk.named, name)))

    def note_people(self, sentence: PlainSentence) -> None:
        """Remember who is named anywhere in a sentence: people who are known, and full names that begin like theirs."""
        for found in re.finditer(r"[^\W\d_][\w-]+", sentence.plain):
            if found[0] in self.talk.people and (sentence.is_capitalized(found.start()) or not sentence.has_capitals):
                after = re.match(r" ([^\W\d_][\w-]+)", sentence.plain[found.end() :])
                has_surname = after is not None and sentence.is_capitalized(found.end() + 1)
                end = found.end() + (len(after[0]) if after and has_surname else 0)
                name = sentence.get_typed(found.start(), end)
                self.note(self.talk.people.get(name.lower(), name))

    def _resolve_pronoun(self, pronoun: str, before: str) -> str | None:
        """The name just before ("Nora Lind, she is"), else the only person named in this turn or the one before."""
        wanted = {"she": "f", "he": "m"}.get(pronoun, "")
        for name in sorted(self.talk.named, key=len, reverse=True):
            is_apposed = re.search(rf"\b{re.escape(name.lower())}(?: from [\w ]+)?, \Z", before)
            if is_apposed and self.talk.gender.get(name, wanted) == wanted:
                return name
        return self._find_named(wanted)

    def find_named_last(self, words: str) -> str:
        """The known person whose name begins these words; "" for none."""
        first = re.match(r"[^\W\d_][\w-]*", words)
        return self.talk.people.get(first[0].lower(), "") if first else ""

    def find_topic(self, topic: str) -> str:
        """The known person whom a question was about, by name or pronoun; "" where that is not clear."""
        if topic in ("he", "she"):
            return self._resolve_pronoun(topic, "") or ""
        return self.talk.people.get(topic.lower(), "")

    def find_pronoun(self, pronoun: str, before: str) -> str:
        """Whom a pronoun means after these words; "" where that is not clear."""
        return self._resolve_pronoun(pronoun, before) or ""

    def _find_named(self, wanted: str) -> str | None:
        """The only person of a gender who was named in this turn, else in the one before."""
        for named in (self.talk.named, self.talk.named_before):
            fitting = [name for name in named if self.talk.gender.get(name, wanted) == wanted]
            if wanted and named and self.talk.gender.get(named[-1]) == wanted:
                known = [name for name in fitting if self.talk.gender.get(name) == wanted]
                fitting = known  # "with Alex and my sister Ida. She ..." is the sister who was named last
            if len(fitting) == 1:
                self.talk.named = tuple(dict.fromkeys((*self.talk.named, fitting[0])))
                return fitting[0]
            if fitting:
                return None
        return None

    def _is_subject_name(self, sentence: PlainSentence, found: re.Match[str]) -> bool:
        if self.is_name(sentence, found.start("name"), found["name"]):
            return True
        return bool(found["our"]) and self._is_lower_name(sentence, found.start("name"), found["name"])

    def _is_kin_name(self, sentence: PlainSentence, found: re.Match[str]) -> bool:
        at, text = found.start("name"), found["name"]
        return self.is_name(sentence, at, text) or self._is_lower_name(sentence, at, text)

    def is_name(self, sentence: PlainSentence, at: int, text: str) -> bool:
        """Whether a word is written like a name, or is one that is known."""
        first = text.split(maxsplit=1)[0].removesuffix("'s")
        if first in self.frames.not_names or first in self.frames.nouns:
            return False
        return sentence.is_capitalized(at) or first in self.talk.people

    def _is_lower_name(self, sentence: PlainSentence, at: int, text: str) -> bool:
        """Whether a word in small letters is a name: in a turn without capitals, before a verb or the end."""
        first = text.split(maxsplit=1)[0]
        after = sentence.plain[at + len(first) :]
        before = re.search(r"([a-z]+) \Z", sentence.plain[:at])
        if before and self.frames.nouns.get(before[1]) == "pets" and re.match(r"\s*(?:[.;!]|\Z)", after):
            return False  # "my horse painting."
        if sentence.has_capitals or first in self.frames.not_names or first in self.frames.nouns:
            return False
        if first in COMMON_NOUNS or (_VERB_FORM.search(first) and first not in _NAMES_LIKE_VERBS):
            return False
        return re.match(NAME_VERBS, after) is not None

    def trim_name(self, sentence: PlainSentence, at: int, text: str) -> tuple[str, int]:
        """The words of a name that are written like one; where the first one is not, that word alone."""
        end, position, is_title = at, at, False
        for number, word in enumerate(text.split()):
            position = sentence.plain.index(word, position)
            if number and not sentence.is_capitalized(position) and not is_title:
                break
            is_title = word.strip(".") in _TITLES
            end = position + len(word)
            position = end
        name = sentence.get_typed(at, end) or sentence.plain[at:end]  # words put back stand nowhere in the turn
        name = name.removesuffix("'s").removesuffix("\u2019s")
        return self.talk.people.get(name.lower(), name), end

    # -- who is whose

    def read_people(self, sentence: PlainSentence) -> Iterator[SlotClaim]:
        """ "my sister Nora", "my boss is called Ingrid", "Tomas is my boss now", "two kids, Elsa (6) and Nils (3)"."""
        plain = sentence.plain
        for found in self._mine.finditer(plain):
            called = "called" in found["link"] or "named" in found["link"]
            if re.search(r"\b(?:ex|late|former)\b", found["adj"]) or REPORTED.search(plain, 0, found.start()):
                continue
            first = found["name"].split()[0]
            is_stated = found["link"] == " is "  # "my wife is vegan"
            is_named = self.is_name(sentence, found.start("name"), found["name"])
            if not (
                is_named
                or (not is_stated and self._is_kin_name(sentence, found))
                or (called and first not in self.frames.not_names)
            ):
                continue
            person, end = self.trim_name(sentence, found.start("name"), found["name"])
            span = (found.start(), end)
            yield from self.relate(self.frames, found["noun"], person, sentence, span, is_new="new" in found["adj"])
        for found in self._theirs.finditer(plain):
            at, text = found.start("name"), found["name"]
            if self.is_name(sentence, at, text) or self._is_lower_name(sentence, at, text):
                person, _ = self.trim_name(sentence, found.start("name"), found["name"])
                is_new = any(found[each] for each in ("now", "new", "since", "already")) or " as " in found[0]
                yield from self.relate(self.frames, found["noun"], person, sentence, found.span(), is_new=is_new)
        stated = self._pronoun.match(plain)
        if stated and (person := self.find_pronoun(stated["pronoun"], "")):
            is_new, noun = stated["now"] is not None, stated["noun"] or stated["chief"]
            yield from self.relate(self.frames, noun, person, sentence, stated.span(), is_new=is_new)
        for found in (*self._apposed.finditer(plain), *self._bare.finditer(plain)):
            if self._is_apposed_name(sentence, found):
                person, _ = self.trim_name(sentence, found.start("name"), found["name"])
                yield from self.relate(self.frames, found["noun"], person, sentence, found.span(), is_new=False)
        yield from self._read_children(sentence)

    def _is_apposed_name(self, sentence: PlainSentence, found: re.Match[str]) -> bool:
        """Whether the words beside a noun for somebody are a name: "Ann, my wife," but not "Although my husband"."""
        first, text = found["name"].split()[0], found[0]
        is_word = first in self.frames.not_names or first in self.frames.nouns or first in COMMON_NOUNS or "'" in first
        if is_word or (_VERB_FORM.search(first) and first not in _NAMES_LIKE_VERBS) or NO_NAME.fullmatch(first):
            return False
        if sentence.has_capitals:
            is_title = first in _TITLES
            return is_title or ("," in text.strip(" ,.:;") and self.is_name(sentence, found.start("name"), first))
        return " " not in found["name"] or first in _TITLES

    def relate(
        self,
        frames: FrameSet,
        noun: str,
        person: str,
        sentence: PlainSentence,
        span: tuple[int, int],
        *,
        is_new: bool,
    ) -> Iterator[SlotClaim]:
        """The claim that somebody is the user's sister, boss or cat; none for a noun without a slot ("my student")."""
        self.note(person)
        self._note_kin(frames, noun, person)
        slot = frames.nouns[noun]
        if not slot:
            return
        value = f"{person} ({frames.pets.get(noun, noun)})" if slot == "pets" else person
        is_english = frames is self.frames
        yield SlotClaim(
            subject=USER_SUBJECT,
            slot=slot,
            value=value,
            mark="change" if is_new else "",
            # a partner may be one of business or dance: the word alone takes nobody's place
            needs="empty" if noun == "partner" and not is_new else "",
            noun=noun if is_english else _ENGLISH_NOUNS.get(_kin_key(frames, noun), ""),
            span=sentence.span(*span),
        )

    def find_whose(self, word: str) -> str:
        """The known person of "Mum's" or "Dean's"; "" for anybody else."""
        if word in self.frames.nouns:
            return self.find_kin(self.frames, word)
        return self.talk.people.get(word, "")

    def find_kin(self, frames: FrameSet, noun: str) -> str:
        """The user's person of this noun ("Schwester", "mum"), where there is one alone; "" otherwise."""
        return self.talk.kin.get(_kin_key(frames, noun), "") if noun in frames.nouns else ""

    def find_who(self, sentence: PlainSentence, found: re.Match[str], frames: FrameSet) -> str:
        """The subject of a phrase of another language; "" where it is not clear, the user where it names nobody."""
        who = found.groupdict().get("who")
        if who is None or who in frames.first:
            return USER_SUBJECT
        if who in frames.pronouns:
            return self._find_named(frames.pronouns[who]) or ""
        at = found.start("who")
        kin = re.match(rf"{frames.owner} (?P<noun>{frames.noun_pattern})\b,? ?", who)
        if kin is None:
            first = who.split()[0]
            known = self.talk.people.get(who) or self.talk.people.get(first, "")
            if known:
                self.note(known)
            return known
        if kin.end() == len(who):
            return self.talk.kin.get(_kin_key(frames, kin["noun"]), "")
        if not sentence.is_capitalized(at + kin.end()):
            return ""
        name, _ = self.trim_name(sentence, at + kin.end(), who[kin.end() :])
        self._note_kin(frames, kin["noun"], name)
        self.note(name)
        return name

    def _note_kin(self, frames: FrameSet, noun: str, person: str) -> None:
        """Remember who "mum" or "my boss" is; nobody where two people are the same to the user."""
        if noun not in frames.nouns:
            return
        if gender := frames.genders[noun]:
            self.talk.gender[person] = gender
        if not frames.nouns[noun]:
            return  # "my colleague" may be anybody
        key = _kin_key(frames, noun)
        known = self.talk.kin.get(key, person)
        is_same = known.casefold().split()[:1] == person.casefold().split()[:1]
        self.talk.kin[key] = person if is_same or frames.nouns[noun] in _ONE_PERSON else ""

    def _read_children(self, sentence: PlainSentence) -> Iterator[SlotClaim]:
        plain = sentence.plain
        intro = re.search(
            rf"\b(?:(?:i|we)(?: \w+)? (?:have|got)(?: got)?|my|our|the) (?P<count>{'|'.join(COUNTS)}|\d)"
            r" (?:kids|children|bairns|sons|daughters|boys|girls|lads|lasses)(?: called| named)?,?:? ",
            plain,
        )
        if intro is None:
            return
        rest = re.compile(r"(?:,? ?(?:and )?)(?P<name>[^\W\d_][\w'-]+)(?: \((?P<age>\d{1,2})\)|,? (?P<years>\d{1,2}))?")
        at, found_names = intro.end(), list[re.Match[str]]()
        while (found := rest.match(plain, at)) and self._is_child_name(sentence, found):
            found_names.append(found)
            at = found.end()
        is_counted = len(found_names) == COUNTS.get(intro["count"], 0)
        for found in found_names:
            if not (is_counted or self.is_name(sentence, found.start("name"), found["name"])):
                continue
            person = sentence.get_typed(found.start("name"), found.end("name"))
            self.note(person)
            span = sentence.span(intro.start(), found.end())
            yield SlotClaim(subject=USER_SUBJECT, slot="children", value=person, span=span)
            if age := found["age"] or found["years"]:
                yield SlotClaim(subject=person, slot="age", value=age, span=span)

    def _is_child_name(self, sentence: PlainSentence, found: re.Match[str]) -> bool:
        name = found["name"]
        is_plain = not sentence.has_capitals and name not in self.frames.not_names and name not in COMMON_NOUNS
        return is_plain or self.is_name(sentence, found.start("name"), name)


def skip_space(plain: str, at: int) -> int:
    """The place of the next word."""
    while at < len(plain) and plain[at] in " ,":
        at += 1
    return at


def _kin_key(frames: FrameSet, noun: str) -> str:
    """What a noun makes of somebody: "mum" and "mother" are one."""
    return frames.nouns[noun] + frames.genders[noun]
