"""Whether the verb of an open claim was said: "The user sued Anna" is no fact of "I told Anna about it".

Looks at the first verb of an English claim. Its own word says it, or another one of its group; verbs that a paraphrase
commonly puts in (says, plans, enjoys, goes) need no word, unless the opposite was said.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import cache

from agentmem.text.tokenizer import tokenize

# Put in by whoever sums up what was said: speech, thought, plans, and what the rest of the sentence says anyway.
_NEUTRAL = """
say tell mention share express describe explain ask inquire suggest recommend advise propose offer encourage
remind reassure congratulate thank agree acknowledge emphasize highlight note report state announce confirm
comment discuss talk chat respond reply invite greet compliment stress indicate reveal recall remember
reminisce call name refer claim recognize believe think feel find consider see look view regard know
understand realize learn discover notice wonder imagine expect hope want wish need plan intend aim aspire
prefer decide choose seek try attempt work prepare enjoy appreciate value like love admire treasure cherish
care support praise become remain stay seem appear sound have own possess keep hold get receive gain obtain
take bring carry give do make create use utilize include involve contain focus center base relate belong serve
act follow practice go attend visit travel come return head participate engage experience face encounter meet
live reside spend start begin continue finish complete happen occur set schedule arrange organize manage
handle deal help assist benefit provide allow let enable cause lead result inspire motivate excite interest
concern worry watch read listen play run cook eat drink wear listen study major specialize research train
celebrate relax show display demonstrate present represent symbolize mean reflect compare connect grow add
change ensure maintain rely depend struggle owns owned owning experienced cover explore reach initiate
contemplate assure promise resolve react delve willing determined
"""
# Verbs of which any one says the others, with nouns that say them.
_GROUPS = """
buy purchase order got get new own pick shop paid cost treat
move relocate home house flat apartment place live settle back
join class club team group member part start sign enroll new
avoid allergy allergic intolerant skip hate dislike steer away quit eat drink
hurt injure broke break twist sprain pull fall fell accident mess
lose lost gone miss missing pass died downsize redundant fire lay
win won winner champion prize award first
sign enroll register apply application contract course class play
quit stop gave left leave resign drop
reduce cut less fewer down lower
build built construct make made
teach taught class lesson student teacher
marry married wedding husband wife
paint draw drew drawn sketch art paintings picture made
sell sold sale
send sent mail post
earn pay paid salary
adopt shelter rescue foster got
hire job start staff team employ
pay paid cost bought price
host party over
volunteer help shelter
launch open start
publish release out
survive accident
visit see saw trip
"""
# Of two words only the one that was said may be told.
_OPPOSITES = """
buy sell|win lose|join leave|start stop|start quit|begin stop|begin quit|gain lose|love hate|like hate|enjoy hate
accept reject|accept decline|lend borrow|teach learn|remember forget|keep sell|keep lose|hire fire|get lose|get sell
come leave|give take|own sell|finish start|grow shrink|pass fail|open close
"""
# What somebody feels for a person needs a word that judges or thanks.
_FEELING = re.compile(
    r"\b(?:lov|lik|admir|trust|miss|valu|support|appreciat|ador|respect|cherish|treasur|praise)(?:e?s|e?d)?"
    r" (?:the user|[A-Z]\w+)\b(?!['\u2019])"
)
_JUDGMENT = re.compile(
    r"\b(?:lov|lik|miss|admir|trust|value|support|appreciat|great|good|best|sweet|kind|thank|glad|happy|proud|help|amaz"
    r"|fun|nice|friend|awesome|wonderful|fantastic|lucky|bless|grateful|inspir|impress|respect|car(?:e|ing)\b|brave|cool"
    r"|special|enjoy|crush|ador|favou?rite|fave|perfect|beautiful|strong|smart|funny|close|dear|rely|count on)",
    re.IGNORECASE,
)
_AUXILIARIES = """
has have had having will would can could may might must should shall do does did to not never is was are were
be am been being isn't wasn't aren't weren't doesn't didn't don't won't can't couldn't hasn't haven't
"""
_LINKING = frozenset(["is", "was", "are", "were", "be", "am", "been", "being", "isn't", "wasn't", "has", "have", "had"])
_ADVERBS = """
also still just soon now once already always often sometimes ever yet even again almost quite very there then
today yesterday recently currently usually both all
"""
_SUBJECT = re.compile(r"([Tt]he user|[A-Z][\w-]*)(?: and (?:the user|[A-Z][\w-]*))?\s+(?!and\b)")
_INTENDED = re.compile(
    r"\b(?:(?:need|want|have|has|plan|planning|hope|hoping|going|like|love|try|trying|supposed|wish|got|ought|about|ready"
    r"|forgot|refused?|failed|meant) to|will|should|must|would|could|might|gonna|wanna|can'?t|cannot|'ll"
    r")(?: \w+ly)? $",
    re.IGNORECASE,
)
_ASKED = re.compile(
    r"\b(?:whether|(?:ask(?:ed|s)?|wonder(?:ed|s)?)(?: \w+)? if) (?:\w+ )?\w+ (?:\w+ly )?$", re.IGNORECASE
)
_DENIAL = re.compile(r"\b(?:not|never|no longer)\b|n['\u2019]t\b", re.IGNORECASE)
_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?", re.IGNORECASE)
_OPENING_CHARS = (
    60  # before a verb in which "I need to" and the like stand; a whole turn before each would take seconds
)
_PREFIX_CHARS = 4  # of a stem, which an irregular form shares with it: chose, choosing
# Past forms that do not begin like their verb.
_IRREGULAR = """
said say|told tell|goes go|thought think|felt feel|found find|saw see|seen see|knew know|known know|went go|gone go
came come|got get|gotten get|took take|taken take|gave give|given give|made make|did do|done do|began begin|begun begin
brought bring|bought buy|became become|kept keep|held hold|met meet|left leave|led lead|meant mean|spent spend|ran run
ate eat|eaten eat|drank drink|wore wear|worn wear|wrote write|written write|chose choose|chosen choose|sought seek
understood understand|grew grow|grown grow|lost lose|won win|sold sell|lent lend|taught teach|forgot forget
forgotten forget|broke break|broken break|drew draw|drawn draw|built build|sent send|paid pay|fell fall|fallen fall
rode ride|ridden ride|drove drive|driven drive|swam swim|sang sing|sung sing|sat sit|slept sleep|stood stand|spoke speak
spoken speak|stole steal|stolen steal|threw throw|thrown throw|flew fly|flown fly|fought fight|caught catch|bit bite
"""


def find_unsaid_verb(claim: str, said: str, names: Collection[str]) -> str:
    """The first verb of a claim about the user or a person, if nothing in `said` says it; else "".

    `names` are those who take part, lower case. A claim that begins with anything but a name has no verb to check.
    """
    if (feeling := _FEELING.search(claim)) and not _JUDGMENT.search(said):
        return feeling[0].split()[0]
    verb = _read_verb(claim, said, names)
    stems, heard = _stem(verb), _stem(said)
    if not stems:
        return ""
    if stems & heard:
        is_asked = _stands_only_behind(_ASKED, stems, said)
        return verb if is_asked or (_is_past(verb) and _stands_only_behind(_INTENDED, stems, said)) else ""
    if _share_prefix(stems, heard) or any(stems & group and heard & group for group in _load_groups()):
        return ""
    if stems & _load_neutral():
        opposite = any(one in stems and other in heard for one, other in _load_opposites())
        return verb if opposite and not _DENIAL.search(claim) else ""
    return verb


def _is_past(verb: str) -> bool:
    return verb.endswith("ed") or (verb in _load_irregular() and not verb.endswith("s"))


def _stands_only_behind(opening: re.Pattern[str], stems: Collection[str], said: str) -> bool:
    """Whether a verb is said of what is wanted or asked alone: "I need to finish it" is not finished."""
    places = [found for found in _WORD.finditer(said) if not _stem(found[0]).isdisjoint(stems)]
    return all(opening.search(said[max(0, found.start() - _OPENING_CHARS) : found.start()]) for found in places)


def _read_verb(claim: str, said: str, names: Collection[str]) -> str:
    """The first full verb behind the subject, lower case; "" where the subject is no name, or for "is a teacher"."""
    subject = _SUBJECT.match(claim)
    name = "" if subject is None else subject[1]
    is_named = tokenize(name) and (name.lower() in names or re.search(rf"\b{name}\b", said))
    if subject is None or not (name.lower() == "the user" or is_named):
        return ""
    is_linked, skipped = False, _load_skipped()
    for found in _WORD.finditer(claim, subject.end()):
        word = found[0].lower()
        if word in skipped:
            is_linked = is_linked or word in _LINKING
        elif not word.endswith("ly"):
            is_form = word.endswith(("ed", "ing")) or word in _load_irregular()
            return word if is_form or not is_linked else ""  # else an adjective or a noun
    return ""


def _share_prefix(stems: Iterable[str], heard: Collection[str]) -> bool:
    starts = {stem[:_PREFIX_CHARS] for stem in heard if len(stem) > _PREFIX_CHARS}
    return any(len(stem) > _PREFIX_CHARS and stem[:_PREFIX_CHARS] in starts for stem in stems)


def _stem(text: str) -> frozenset[str]:
    irregular = _load_irregular()
    return frozenset(tokenize(" ".join(irregular.get(word.lower(), word) for word in _WORD.findall(text))))


@cache
def _load_skipped() -> frozenset[str]:
    return frozenset((_AUXILIARIES + _ADVERBS).split())


@cache
def _load_irregular() -> dict[str, str]:
    return dict(pair.split() for line in _IRREGULAR.split("\n") for pair in line.split("|") if pair)


@cache
def _load_neutral() -> frozenset[str]:
    return _stem(_NEUTRAL)


@cache
def _load_groups() -> list[frozenset[str]]:
    return [_stem(line) for line in _GROUPS.strip().split("\n")]


@cache
def _load_opposites() -> list[tuple[str, str]]:
    pairs = [pair.split() for line in _OPPOSITES.strip().split("\n") for pair in line.split("|")]
    stems = [(next(iter(_stem(one))), next(iter(_stem(other)))) for one, other in pairs if _stem(one) and _stem(other)]
    return [*stems, *((other, one) for one, other in stems)]
