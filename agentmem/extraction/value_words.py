"""What the words around a value say: whose it is, and whether it is so, was so, will be so, is over or is denied."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from agentmem.beliefs.slots import USER_SUBJECT
from agentmem.beliefs.values import normalize_value
from agentmem.extraction.claims import drop_idioms
from agentmem.extraction.frames.frame_set import LANGUAGES, FrameSet, load_frames
from agentmem.extraction.frames.people import PeopleReader
from agentmem.extraction.frames.plain_text import PlainSentence
from agentmem.extraction.frames.verb_group import IRREGULAR_PAST
from agentmem.extraction.frames.words import ADJECTIVES, JOINT, LEAD, REPORTED
from agentmem.text.tokenizer import tokenize

SOMEBODY = "?"
"""The owner of a value that belongs to somebody who is not known, or cannot be told from the words."""
PRONOUN_OWNERS = {"he": "he?", "his": "he?", "she": "she?", "her": "she?", "they": "they?", "their": "they?"}
"""The owners that a pronoun stands for where the words before do not tell whom it means."""
ADDRESSEE = "you?"
"""The owner in words to the one who listens: "you need not use bullet points"."""

_WORD = re.compile(r"\d+(?:,\d{3})+\b|[^\W_](?:[\w.@+'-]*\w)?")
_OPINION = re.compile(r"(?:i|we) (?:think|guess|believe|suppose|reckon|assume)(?: that)? ")
_ELISION = re.compile(r"^\w{1,2}'")  # "l'Isère"
_PARENTHESIS = re.compile(r"\s*\([^)]*\)")

# Words that tell the language of a sentence apart; one of another language is not doubted.
_FUNCTION_WORDS = {
    "english": "the i my we our is am are was have has to of and a an in on at for with not you she he they it"
    " by from this that will can do does did been who what but so then now his her their me us up out over got as"
    " there there's well also or any some more just",
    "german": "ich wir er sie es du mein meine meinen meiner unser unsere der die das dem den ist bin sind war hat"
    " nicht kein keine keinen und oder ein eine einen auf mit aus bei von zu zum im am in an als so was da seit jetzt"
    " bitte mir auch wenn fange steht um nach ziehe ziehen wohnen noch schon nur",
    "spanish": "yo él ella tú mi mis el la los las es soy somos estoy está no y en con un una de del al que nos por"
    " para me a vivo vive trabajo trabaja tengo tiene se ya desde pero muy",
    "french": "je j'ai il elle tu vous mon ma mes nous notre le la les est suis a ne pas et un une de des du dans avec"
    " pour que qui au chez depuis mais habite travaille on ont en as cette ce",
    "portuguese": "eu ele ela você meu minha meus o os as é sou estou está não e em no na com um uma de do da que nós"
    " nosso moro mora trabalho trabalha tenho tem já desde mas",
}
_LANGUAGE_WORDS = {name: frozenset(words.split()) for name, words in _FUNCTION_WORDS.items()}

_NEGATION = re.compile(
    r"\b(?:not|nae|never|cannot|nobody|nothing|none|neither|nor|without|no|nope|hardly|barely|nicht|kein\w*|nie|niemals"
    r"|ohne|jamais|nunca|jamás|tampoco|sin|sans|sem|não|nem|pas|aucune?|nada|nadie)\b"
)
_IN_THE = re.compile(r"\bno\b")  # Portuguese: "no Porto", "no dia 10"
_BODY = "knee|hand|side|arm|leg|foot|eye|ear|shoulder|hip|ankle|wrist|handed|elbow|lane|turn|wing"
_OVER = re.compile(
    r"\b(?:no longer|any ?more|any longer|used to|stopp?ed|stop|quit|quitting|gave up|given up|giving up"
    rf"|left(?![ -](?:{_BODY})\b)|leaving|sold|selling|lost|losing|cancel\w*|called off|calling off|fell through"
    r"|packed (?:it )?in|(?:is|are) off|got shot of?|is dead|is history|fallen through|off the table|ended"
    r"|(?:is|are|was|were) (?:all )?over|over and done|finished|done with|broke up"
    r"|broken up|split up|divorced|separated|resigned|retired|fired|sacked|laid off|let go|former\w*|ex|dropped|ditched"
    r"|got rid of|given away|gave away|moved out|died|passed away|cut out|handed in|scrapped|shelved|instead of"
    r"|switched off|turned off|shut down|decommissioned|is gone|are gone|thrown? (?:away|out)|threw away|traded in"
    r"|written off|no more"
    r"|(?:ist|sind) (?:tot|weg|vorbei|hin|kaputt)|hör\w* auf|nicht mehr|kein\w* \w+ mehr|aufgehört|gekündigt|verkauft"
    r"|verlassen|abgesagt|erledigt|(?:ab|aus)geschaltet|aufgegeben|losgeworden|weggeworfen|ausgezogen|beendet|verloren"
    r"|geschieden|getrennt(?! von)|zu ende|anstatt|statt(?= (?:\d|de[rsmn]\b|eine|mit\b|bei\b))"
    r"|se acab\w+|ya no|dejé|dejó|dejamos|dejado|vendí|vendió|vendimos|vendido|cancelé|cancelamos|cancelado|perdí"
    r"|perdimos"
    r"|se fue(?! a\b)|murió|(?:en vez|en lugar) de|dio (?:el|de) alta|renuncié|apagado|rompimos|terminamos|ha muerto"
    r"|est (?:mort|fini)\w*|est partie?(?! (?:vivre|habiter|à|en|au|aux|pour)\b)|ne \w+ plus|n'\w+ plus"
    r"|arrêtée?|quittée?|vendue?s?|annulée?|perdue?|jetée?"
    r"|abandonnée?|démissionné|séparée?s?|divorcée?s?|décédée?|au lieu de"
    r"|já não|não \w+ mais|deixei|deixou|deixámos|larguei|vendi|vendeu|vendemos|parei|cancelei|cancelou|cancelado|perdi"
    r"|perdemos|acabou|acabei|terminei|morreu|foi-se|em vez de|demiti\w*|desligado|separámos)\b"
)
_PLANNED = re.compile(
    r"\b(?:will|shall|going to|plans? to|plans? on|planning|planned|about to|decided to|intend\w*|aims? to|aiming to"
    r"|thinking (?:of|about)|considering|hop(?:e|es|ing) to|wants? to|would like to|looking to|looking at|trying to"
    r"|might|may|maybe|perhaps|possibly|soon|tomorrow|dream of|dreaming of|wish to"
    r"|next (?:week|weekend|month|year|spring|summer|autumn|winter|monday|tuesday|wednesday|thursday|friday)"
    r"|(?:am|is|are) (?:\w+ly |also |now |soon )?(?:moving|starting|joining|switching|getting|buying|flying"
    r"|travel\w*|becoming|marrying|visiting|flitt?in\w*"
    r"|leaving|adopting|taking up|heading|relocating|changing|going)"
    r"|werde|werden|wird|will|vorhaben|voy a|vamos a|va a|vais|allons|vais|vou|vamos)\b"
)
_PAST = re.compile(
    r"\b(?:used to|former\w*|previous\w*|back then|in the past|as a (?:child|kid|teenager|student)|ex|once upon"
    r"|when (?:i|we|he|she|they) (?:was|were|lived|worked|had))\b"
    r"|\b(?:was|were)\b(?! (?:\w+ )?(?:diagnosed|born|told|given|promoted|hired|offered|made|named|prescribed|put|moved"
    r"|switched|accepted|wrong|mistaken))"
    r"|(?<!have )(?<!has )(?<!'ve )\b(?:lived|worked|studied|owned|drove|smoked|ate|drank|liked|loved|hated|played"
    r"|spoke|attended)\b"
    r"|\b(?:früher|damals|war|waren|wohnte|arbeitete|antes|vivía|trabajaba|era|avant|habitais|travaillais|étais|morava"
    r"|trabalhava)\b"
)
_PRESENT = re.compile(
    r"\b(?:am(?! \d)|is|are|live|lives|work|works|have|has|like|likes|love|loves|drive|drives|take|takes|speak|speaks"
    r"|eat|eats|drink|drinks|smoke|smokes|play|plays|prefer|prefers|bin|ist|wohne|arbeite|soy|es|vivo|trabajo|suis|est|habite"
    r"|travaille|sou|moro|trabalho)\b"
)
_HYPOTHETICAL = re.compile(
    r"\b(?:if|unless|would(?! like to)|wish\w*|imagine|suppose|supposing|pretend\w*|hypothetical\w*|dreamt|dreamed"
    r"|as though|could have|should have|almost|nearly|wenn|falls|würde|hätte|si|sería|ojalá|se eu|seria)\b"
)
_NOMINATIVE = re.compile(r"\b(?P<who>i|we|he|she|they|you|who)\b")
_POSSESSIVE = re.compile(
    r"(?P<owner>my|our|me|his|her|their|your|(?!(?:there|that|it|he|she|who|what|here|let)'s)[^\W\d_][\w-]*'s?)"
    rf" {ADJECTIVES}"
    r"(?P<thing>(?!(?:no|not|yes|too|and|or)\b)[\w-]+)"
)
WITH_ME = re.compile(
    r"(?P<who>[^\W\d_][\w-]*) (?:and (?:i|me)|und ich|y yo|et moi|e eu)\b"
    r"|\b(?:(?:i|me) and|ich und|yo y|moi et|eu e) (?P<other>[^\W\d_][\w-]*)"
)
"""Two people as one subject, of whom the speaker is one: "Ben and I are moving"."""
_OTHER_PEOPLE = re.compile(
    r"\b(?:neighbou?rs?|colleagues?|coworkers?|co-workers?|teachers?|doctors?|dentists?|grand(?:father|mother|pa|ma|dad"
    r"|mum|mom|parents?|son|daughter)|cousins?|uncles?|aunts?|nephews?|nieces?|clients?|customers?|guy|woman|man|lady"
    r"|girl|boy|friends?|housemates?|students?|tenants?|in-laws?|ex|team|company|people|someone|everyone|everybody|nobody"
    r"|guests?|visitors?|kids?|children|parents|siblings|sisters|brothers|sons|daughters|nachbar\w*|kollege\w*|kollegin"
    r"|vecin[oa]s?|amig[oa]s?|voisine?s?|collègues?|vizinh[oa]s?|colegas?)\b"
)
_NO_NAMES = frozenset(
    ["there", "there's", "yes", "yeah", "aye", "no", "ja", "nein", "doch", "oui", "non", "si", "sí", "sim", "não"]
)
_FOREIGN_JOINT = re.compile(r"\s(?:und|aber|sondern|weil|y|pero|porque|et|mais|e|mas)\s")
_INSTEAD = re.compile(r" (?:instead of|rather than|statt|en vez de|au lieu de|em vez de) ")
_OTHER_SUBJECT_START = re.compile(
    rf"(?:(?:the|an?|my|our|me|this|that|some|two|three|every|each|el|la|los|las|un|una|le|les|une|der|die|das|ein|eine"
    rf"|meine?|unsere?|mi|mon|ma|o|os|as|um|uma|minha|meu) (?:[\w-]+ ){{0,2}})?(?:{_OTHER_PEOPLE.pattern})"
)
_ANSWERED_NO = re.compile(
    r"^(?:ha |oh |ah |well |wait,? |sorry,? )*(?:no|nope|nah|naw|nein|non|não)"
    r"(?:[,.] ?| (?=(?:i|we|he|she|they|it|there|theres|its|my|our|me)\b))"
)
_BARE_ITEM_WORDS = 4  # words up to which a clause without a verb is an item of a list
VERB_LIKE = re.compile(
    r"\b(?:am|is|are|was|were|be|been|have|has|had|do|does|did|will|would|can|could|live|work|eat|drink|like|love|hate"
    rf"|prefer|take|use|told|said|saw|met|heard|gave|made|mean|meant|ist|sind|bin|habe|hat|est|sont|suis|soy|tiene|tengo|são|sou|tenho|\w+ed|\w+ing|{'|'.join(sorted(IRREGULAR_PAST))})\b"
)


@dataclass(frozen=True, slots=True)
class ValueReading:
    """What the words around a value say.

    `owners` are whom it may belong to: `user`, names in small letters, SOMEBODY, one of PRONOUN_OWNERS for a pronoun
    that is not resolved, ADDRESSEE; empty where the words name nobody. `owned` is the thing of theirs that is the
    subject ("my diet"). `language` is "" for one that is not known, of which nothing is doubted.
    """

    clause: str
    owners: frozenset[str]
    owned: str
    language: str
    is_denied: bool
    is_over: bool
    is_planned: bool
    is_past: bool
    is_present: bool
    is_hypothetical: bool
    is_reported: bool


def says_over(plain: str) -> bool:
    """Whether words say that something came to its end."""
    return _OVER.search(plain) is not None


def detect_language(plain: str) -> str:
    """The language of a sentence of which most function words are; "" where none or several are likely."""
    counts = dict.fromkeys(LANGUAGES, 0.0)
    for word in plain.split():
        languages = [name for name in LANGUAGES if word.strip(".,;:!?") in _LANGUAGE_WORDS[name]]
        for name in languages:
            counts[name] += 1 / len(languages)  # a word of several languages says less
    first, second = sorted(LANGUAGES, key=lambda name: counts[name], reverse=True)[:2]
    return first if counts[first] > counts[second] else ""


def find_value(sentence: PlainSentence, value: str) -> tuple[int, int] | None:
    """Where a value stands in the plain form of a sentence: its words in a row, else all of their stems.

    What stands in parentheses behind a value ("Miso (cat)") says what it is, and need not be there.
    """
    bare = _PARENTHESIS.sub("", value) or value
    wanted = [_to_bare_word(found[0]) for found in _WORD.finditer(bare.replace("\u2019", "'"))]
    words = [(_to_bare_word(found[0]), found.span()) for found in _WORD.finditer(sentence.plain)]
    for at in range(len(words) - len(wanted) + 1):
        if wanted and all(want == words[at + n][0] for n, want in enumerate(wanted)):
            return words[at][1][0], words[at + len(wanted) - 1][1][1]
    stems = set(tokenize(bare))
    places = [span for word, span in words if stems & set(tokenize(word))]
    said = {stem for word, _ in words for stem in tokenize(word)}
    return (places[0][0], places[-1][1]) if stems and stems <= said else None


def _to_bare_word(word: str) -> str:
    """A word as values are compared, without the "l'" and "'s" around it."""
    return normalize_value(_ELISION.sub("", word.removesuffix("'s")))


def read_value_words(sentence: PlainSentence, span: tuple[int, int], people: PeopleReader) -> ValueReading:
    """Read the clause in which a value stands at a span of the plain form."""
    start, end = _find_clause(sentence.plain, span)
    end = _find_contrast(sentence.plain, span[1], end)
    clause = drop_idioms(_ANSWERED_NO.sub("", sentence.plain[start:end]))
    lead = LEAD.match(sentence.plain, start)
    owned = _POSSESSIVE.match(sentence.plain, lead.end() if lead else start)
    is_inner = owned is not None and _NOMINATIVE.search(sentence.plain, owned.end(), span[0])
    language = detect_language(sentence.plain)
    frames = load_frames(language or LANGUAGES[0])
    if owned is not None and owned["thing"] in frames.nouns:
        owned = None  # "my sister is in Vienna" is about her
    reported = REPORTED.search(sentence.plain, 0, span[0])
    own_word = reported and re.search(
        r"\b(?:i|we|doctors?) (?:have |had |just )?\Z", sentence.plain[: reported.start()]
    )
    return ValueReading(
        clause=clause,
        owners=_find_owners(sentence, start, span, people, frames),
        owned=owned["thing"] if owned and not is_inner and owned.end() <= span[0] else "",
        language=language,
        is_denied=_NEGATION.search(_IN_THE.sub(" ", clause) if language == "portuguese" else clause) is not None,
        is_over=_OVER.search(clause) is not None,
        is_planned=_PLANNED.search(clause) is not None,
        is_past=_PAST.search(clause) is not None,
        is_present=_PRESENT.search(clause) is not None,
        is_hypothetical=_HYPOTHETICAL.search(sentence.plain[:end]) is not None,
        is_reported=reported is not None and own_word is None,
    )


def find_possessors(plain: str, at: int, people: PeopleReader, frames: FrameSet) -> frozenset[str]:
    """Whose the person or thing is that is named at a place: "my", "Mateo's", "her"; empty without such a word."""
    before = re.search(rf"(?P<owner>[^\W\d_][\w'-]*) {ADJECTIVES}\Z", plain[:at])
    if before is None:
        return frozenset()
    word = before["owner"]
    if word in ("my", "our", "me") or re.fullmatch(frames.owner, word):
        return frozenset({USER_SUBJECT})
    if word in ("his", "her", "their"):
        named = people.find_pronoun({"his": "he", "her": "she", "their": "they"}[word], plain[:at])
        return frozenset({named.lower() if named else SOMEBODY})
    if word.endswith(("'s", "s'")):
        name = word.rstrip("s").rstrip("'")
        known = people.find_whose(name) or name
        return frozenset({known.lower()})
    return frozenset({SOMEBODY}) if word == "your" else frozenset()


def _find_clause(plain: str, span: tuple[int, int]) -> tuple[int, int]:
    """The clause around a value: an item of a list belongs to the clause before it, unless it is denied itself."""
    joints = sorted([*JOINT.finditer(plain), *_FOREIGN_JOINT.finditer(plain)], key=lambda joint: joint.start())
    starts = [0, *(joint.end() for joint in joints if joint.end() <= span[0])]
    end = min((joint.start() for joint in joints if joint.start() >= span[1]), default=len(plain))
    while len(starts) > 1 and _is_list_item(plain, starts[-1], end):
        starts.pop()
    return starts[-1], end


def _find_contrast(plain: str, at: int, end: int) -> int:
    """Where a clause ends before what it is not: "Dalston not Carlisle", "88 instead of 75"."""
    contrast = re.match(r",? (?:and |but )?not (?!any)", plain[at:end]) or _INSTEAD.search(plain[at:end])
    return at + contrast.start() if contrast and at < end else end


def _is_list_item(plain: str, start: int, end: int) -> bool:
    item = plain[start:end].strip()
    is_contrast = re.search(r"\b(?:but|then|now)\s+\Z", plain[:start]) or item.startswith(("not ", "no ", "now "))
    return not is_contrast and len(item.split()) <= _BARE_ITEM_WORDS and VERB_LIKE.search(item) is None


def _find_owners(
    sentence: PlainSentence, start: int, span: tuple[int, int], people: PeopleReader, frames: FrameSet
) -> frozenset[str]:
    """Whom a value belongs to: the subject of its clause, else that of the clause before."""
    plain = sentence.plain
    owners: frozenset[str] = frozenset()
    named_at = start
    for at in (*(each for each in _clause_starts(plain) if each < start), start):
        found = _find_subject(sentence, at, span, people, frames)
        owners, named_at = (owners, named_at) if found is None else (found, at)
    lead = LEAD.match(plain, start)
    begin = max(start + 1, lead.end() if lead else 0)
    inner = [found for found in _NOMINATIVE.finditer(plain, start, span[0]) if found.start() >= begin]
    inner = [found for found in inner if not re.match(r" (?:mean|meant)\b", plain[found.end() :])]
    if inner:
        owners = _resolve_nominative(inner[-1]["who"], plain, inner[-1].start(), people, owners)
        named_at = inner[-1].start()
    for joined in WITH_ME.finditer(plain, 0, span[0]):
        if joined.end() > named_at:
            other = joined["who"] or joined["other"]
            owners |= {USER_SUBJECT, (people.find_whose(other) or other).lower()}
    return owners


def _clause_starts(plain: str) -> Iterator[int]:
    yield 0
    for joint in JOINT.finditer(plain):
        yield joint.end()


def _find_subject(
    sentence: PlainSentence, start: int, span: tuple[int, int], people: PeopleReader, frames: FrameSet
) -> frozenset[str] | None:
    """The owners that the beginning of a clause names; None where it names nobody."""
    plain = sentence.plain
    lead = LEAD.match(plain, start)
    at = lead.end() if lead else start
    if opinion := _OPINION.match(plain, at):
        at = opinion.end()
    if at >= span[0]:
        return None
    first = [word for word in frames.first if word]
    if first and re.match(rf"(?:{'|'.join(map(re.escape, first))})\b", plain[at:]):
        return frozenset({USER_SUBJECT})
    owned = _POSSESSIVE.match(plain, at)
    if owned is not None and (owners := _read_possessive(plain, owned, people, frames)):
        return owners
    if pronoun := re.match(rf"(?:{'|'.join(frames.pronouns) or '(?!)'}|he|she|they|you|du|tú|tu|vous)\b", plain[at:]):
        return _resolve_pronoun(pronoun[0], plain, at, people, frames)
    if frames is people.frames:
        name, end = people.find_subject(sentence, at)
        if name is not None and _is_subject(name, plain, end, people):
            return frozenset({name.lower() or SOMEBODY})
    elif owners := _find_foreign_subject(sentence, at, people, frames):
        return owners
    words = plain[at : span[0]]
    is_other = _OTHER_SUBJECT_START.match(words) or re.match(r"(?:your|his|her|their)\b", words)
    return frozenset({SOMEBODY}) if is_other or owned is not None else None


def _is_subject(name: str, plain: str, end: int, people: PeopleReader) -> bool:
    """Whether a name begins a statement: not the "Elm Street" of "Elm Street 12", not the first word of a fragment."""
    if plain[end : end + 1].isdigit() or name.lower().partition(" ")[0] in _NO_NAMES:
        return False
    is_known = name in ("", USER_SUBJECT) or name.lower() in people.talk.people
    return (
        is_known or bool(detect_language(plain)) or re.match(rf"{VERB_LIKE.pattern}|[a-z]+s\b", plain[end:]) is not None
    )


def _resolve_pronoun(word: str, plain: str, at: int, people: PeopleReader, frames: FrameSet) -> frozenset[str]:
    """Whom a pronoun of any language means."""
    who = {"f": "she", "m": "he"}.get(frames.pronouns.get(word, ""), word)
    return _resolve_nominative(who, plain, at, people, frozenset())


def _find_foreign_subject(
    sentence: PlainSentence, at: int, people: PeopleReader, frames: FrameSet
) -> frozenset[str] | None:
    """The person at the beginning of a clause that is not English: a known name, "mi hermana Ana"."""
    plain = sentence.plain
    if kin := re.match(rf"(?:{frames.owner} )(?P<noun>{frames.noun_pattern})\b,? ?", plain[at:]):
        end = at + kin.end()
        name = re.match(r"[^\W\d_][\w-]*", plain[end:])
        if name and sentence.is_capitalized(end) and name[0] not in frames.nouns:
            return frozenset({name[0].lower()})
        return frozenset({people.find_kin(frames, kin["noun"]).lower() or SOMEBODY})
    other = re.match(rf"{frames.owner} [^\W\d_][\w-]* (?P<name>[^\W\d_][\w-]*)", plain[at:])
    if other and sentence.is_capitalized(at + other.start("name")):  # "mi cuñada Lola", "meine Kollegin Anna"
        return frozenset({other["name"].lower()})
    known = people.find_named_last(plain[at:])
    return frozenset({known.lower()}) if known else None


def _read_possessive(plain: str, found: re.Match[str], people: PeopleReader, frames: FrameSet) -> frozenset[str] | None:
    """The owners of "my diet", "her mother", "my sister's diet"; None for a person of the user's, who is a subject."""
    thing = found["thing"]
    base = thing.removesuffix("'s")
    known = people.talk.people.get(base) or people.talk.people.get(base.removesuffix("s"))
    if known and found["owner"] in ("my", "our", "me"):  # "our gemma", "our gemmas a nurse"
        return frozenset({known.lower()})
    is_person = base in frames.nouns or _OTHER_PEOPLE.fullmatch(base) is not None
    if is_person and (thing != base or found["owner"] not in ("my", "our", "me")):
        known = people.find_whose(base) if found["owner"] in ("my", "our", "me") else ""
        return frozenset({known.lower() or SOMEBODY})
    if is_person:
        return None
    owners = find_possessors(plain, found.start("thing"), people, frames)
    if owners == {SOMEBODY} and found["owner"] in PRONOUN_OWNERS:
        return frozenset({PRONOUN_OWNERS[found["owner"]]})
    return owners or None


def _resolve_nominative(who: str, plain: str, at: int, people: PeopleReader, owners: frozenset[str]) -> frozenset[str]:
    if who in ("i", "we"):
        return frozenset({USER_SUBJECT})
    if who in ("he", "she", "they"):
        named = people.find_pronoun(who, plain[:at])
        return frozenset({named.lower() if named else PRONOUN_OWNERS[who]})
    if who == "who":
        before = re.search(r"([^\W\d_][\w-]*),? \Z", plain[:at])
        known = people.find_whose(before[1]) if before else ""
        return frozenset({known.lower() or SOMEBODY})
    return frozenset({ADDRESSEE})
