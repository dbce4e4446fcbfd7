"""Doubts about a model's claim: cheap signals, each of words beside the value, that speak the other way.

A doubtful claim is kept and found, but never told as current. Each doubt pays by what it stops against the true claims
that it makes doubtful; docs/extraction.md has the figures.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date

from agentmem.beliefs.slots import THING_SUBJECT, USER_SUBJECT
from agentmem.beliefs.values import is_same_value
from agentmem.extraction.claim_view import ClaimView
from agentmem.extraction.plain.verb_tense import find_direction
from agentmem.extraction.said_words import (
    WORD,
    find_languages,
    fold,
    has_words,
    is_said,
    list_content_words,
    list_words,
    load_words,
    split_compounds,
)
from agentmem.text.normalization import MONTHS
from agentmem.text.temporal import MONTH_NUMBERS
from agentmem.text.tokenizer import tokenize

AGENT_SUBJECT = "agent"
MAX_PLAN_QUOTE_WORDS = 25  # of a quote that may hold the words of a plan anywhere
MAX_DAYS_AHEAD = 200  # within which a written day is one to come
DENIAL_REACH = 5  # words before an open claim's word in which a denial counts
TOWARD_REACH = 6  # characters before a value in which "to" stands: "moved to X" ends another place than X

_MONTH = "|".join(name[:3] for name in MONTHS)
_DAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day|tomorrow|morgen|mañana|demain|amanhã"
_TO_COME = re.compile(
    rf"\b(?:{_MONTH}|mai|mayo|ene|abr|agosto|okt|dez|dic|déc|avril|juin|juil|août|weekend|christmas|easter|next|tonight"
    rf"|starts?|(?:end|beginning|middle) of|in \d+ |\d+(?:st|nd|rd|th)|(?:from|on|this|until|am|ab|el|le|na|no) {_DAY}"
    r"|tomorrow|morgen|mañana|demain|amanhã|(?:ab|am|zum) (?:dem )?\d{1,2}\.|from then on)",
    re.IGNORECASE,
)
_SINCE = re.compile(r"\b(?:since|last|ago|yesterday|seit|desde|depuis)\b", re.IGNORECASE)
_PAST_FORM = re.compile(r"\b\w{2,}ed\b", re.IGNORECASE)
_HOLDS_ON = re.compile(r"\b(?:since|seit|desde|depuis)\b", re.IGNORECASE)
_UNTIL = re.compile(r"\b(?:until|till|bis|hasta|jusqu|até)\b", re.IGNORECASE)
_WRITTEN_DAY = re.compile(rf"(\d{{1,2}})(?:st|nd|rd|th|\.)? (?:of |de )?({_MONTH})", re.IGNORECASE)
_LAST_SENTENCE = re.compile(r"[.!?]\s")
# "No, I meant 7" denies what was said before, not the 7.
_ANSWER_NO = re.compile(
    r"^\W*(?:(?:nope|nah|naw|nein|nee)\b|(?:no|non|não)\b"
    r"(?=\W*[,.!…]|\s+(?:i|it|it's|its|we|my|there'?s|es|yo|je|eu|c'est)\b))",
    re.IGNORECASE,
)
_JOINED = re.compile(
    r"^\W*[\w-]+(?:'s)?\W+(?:and|und|y|et|e|with|mit|con|avec|com)\W+(?:[\w-]+\W+){0,2}$", re.IGNORECASE
)
_LONG_ENDINGS = ("strasse", "schule", "wohnung", "platz")  # of German compounds
_ANYBODY = ("they", "them")  # "What did they say?"
_VERBS = {"has", "had", "have", "adopted", "married", "marry", "engaged", "dating"}  # among the words that are skipped
_IN_LIST = re.compile(r"[\w-]+\W+(?:(?:and|und|y|et|e)\W+)?", re.IGNORECASE)
_IDIOM = re.compile(r"\bcan(?:'t|not) wait\b|\bno (?:doubt|problem|wonder|worries)\b|\bnot only\b", re.IGNORECASE)
_UNREAL = re.compile(
    r"\b(?:wish|imagine|pretend|maybe|i'd (?:love|like)|would (?:love|like)|(?:if|wenn|si|se|ojala|imagina)"
    r" (?:i|we|ich|wir|yo|je|eu|tuviera|fuera|j))\b"
)
_TAKEN_BACK = re.compile(
    r"[^.!?\n]{0,20}[.?!]+\s*(?:(?:espera|warte|attends|wait|sorry)\W+)?"
    r"(?:no|nope|nah|naw|nein|non|não|wait|sorry|(?:i'?m|it'?s|that'?s|she'?s|he'?s) not|stimmt nicht)\b",
    re.IGNORECASE,
)
# words of the speaker about what they say, which make them no owner of it: "I meant 86", "I think she is"
_SAYING = re.compile(
    r"\b(?:i (?:meant?|mean|think|guess|believe|heard?|said|suppose|reckon)|ich (?:meinte|meine|glaube|denke|sagte)"
    r"|(?:creo|quise decir|quis dizer|acho) que|je (?:crois|pense|voulais dire))\b",
    re.IGNORECASE,
)
_WE = re.compile(r"\b(?:we|we're|we've|us|our|wir|uns|nosotros|nous|nos)\b")
_STOPPED = re.compile(r"\b(?:no longer|used to|quit|stopped|gave up|given up|not any ?more)\b")
_FILLERS = "the user agent assistant family recently currently really often usually also once first"
_NEXT = re.compile(r"[\w']+\W+(?:[\w-]+\W+)?\Z")  # "my sister", "your younger sister"
_ASKED_FOR = re.compile(r"\b(?:ask|wonder|want(?:s|ed)? to know|inquir|question)", re.IGNORECASE)
_PLANS_TO = re.compile(r"\b(?:wants?|plans?|needs?|hopes?|intends?|wishes|would like) to ")
_POSSESSIVE_START = re.compile(r"(?:The )?\w+['’]s\b")


def find_doubts(view: ClaimView) -> Iterator[str]:
    """The names of the doubts about a claim, for reports and for who is asked."""
    checks = (
        ("owner", is_of_another),
        ("speaker", is_of_other_speaker),
        ("absent", is_absent),
        ("negation", is_denied),
        ("no denial", lacks_denial),
        ("no end", lacks_end),
        ("end", is_ended),
        ("plan", is_planned),
        ("no plan", lacks_plan),
        ("no past", lacks_past),
        ("supposition", is_supposed),
        ("question", is_asked),
        ("no word of kin", lacks_kin),
        ("no word of the slot", lacks_cue),
        ("a common word", is_common_word),
        ("held", names_held_value),
        ("verb", has_unsaid_verb),
    )
    return (name for name, check in checks if check(view))


def is_of_another(view: ClaimView) -> bool:
    """Whether the owner nearest before the value, in its sentence, is somebody whom the claim does not name."""
    if view.subject in (THING_SUBJECT, AGENT_SUBJECT) or view.key in load_words().slots["ownerless"]:
        return False
    start, end = view.sentence
    lead = view.text[start : view.focus[0]]
    owners = list_owners(view, lead)
    if view.draft.mark == "correct" and any(kind == view.subject for kind, _, _ in owners):
        return False  # "About Jonas I have to correct something: …"
    if view.key in load_words().kin and len(owners) > 1 and _IN_LIST.fullmatch(lead, owners[-1][2]):
        owners = owners[:-1]  # "our children Clara and Jonas": a name beside a name is no owner
    speaks_for_self = any(kind == USER_SUBJECT and word not in view.words["own"] for kind, word, _ in owners)
    is_answer = start == 0 and view.asked.rstrip().endswith("?")
    if not owners and is_answer and not list_owners(view, view.text[view.focus[0] : end]):
        swapped = {"addressee": USER_SUBJECT, USER_SUBJECT: "addressee"}
        asked = list_owners(view, _LAST_SENTENCE.split(view.asked)[-1])
        owners = [(swapped.get(kind, kind), word, at) for kind, word, at in asked if word not in _ANYBODY]
    elif len(owners) > 1 and not _JOINED.search(lead[owners[-2][2] : owners[-1][2]]):
        owners = owners[-1:]  # "A and I" are both owners, else the nearest one is
    if any(_may_be_owner(view, kind, word, lead, speaks_for_self) for kind, word, _ in owners[-2:]):
        return False
    return bool(owners) and (owners[-1][0] != "addressee" or view.subject == USER_SUBJECT)


def list_owners(view: ClaimView, text: str) -> list[tuple[str, str, int]]:
    """Who a stretch speaks of, in its order: kind, word and place.

    The kind is the user, a known name, or one of kin, third, addressee. "My brother" is one owner, not two.
    """
    names = {part: name for name in [*view.people.names, view.subject] for part in list_words(name) if len(part) > 1}
    names = {part: name for part, name in names.items() if part not in load_words()["function"] | {USER_SUBJECT}}
    words, out = view.words, list[tuple[str, str, int]]()
    for found in WORD.finditer(_SAYING.sub(lambda said: "." * len(said[0]), text)):
        word = fold(found[0])
        bare = word.removesuffix("'s")
        if word in words["first"] and (view.subject == USER_SUBJECT or word not in words["own"]):
            kind = USER_SUBJECT
        elif bare in names or bare.removesuffix("s") in names:  # "gemmas" of those who leave the apostrophe out
            kind = names.get(bare) or names[bare.removesuffix("s")]
        elif bare in words["others"] or any(bare in kin for slot, kin in words.kin.items() if slot != view.key):
            kind = "kin"
        else:
            kind = next((name for name in ("third", "addressee") if word in words[name]), "")
        if (
            kind == "kin"
            and out
            and out[-1][1] in words["own"] | words["addressee"]
            and _NEXT.match(text[out[-1][2] : found.start()])
        ):
            out.pop()
        if kind and not (out and out[-1][0] == "kin" and word in ("mine", "meiner")):
            out.append((kind, bare, found.start()))
    return out


def _may_be_owner(view: ClaimView, kind: str, word: str, lead: str, speaks_for_self: bool) -> bool:
    """Whether an owner is, or may be, whom the claim is about."""
    words, claimed = load_words(), list_words(view.draft.claim)
    if kind == view.subject or (word in claimed and kind not in (USER_SUBJECT, "third", "addressee")):
        return True
    if kind == "third" and (view.subject != USER_SUBJECT or (speaks_for_self and word in words["theirs"])):
        return True  # "I wore her coat to Marstad"
    first = next(iter(list_words(view.subject)), "")
    if kind == "kin":
        is_named = re.search(rf"\b{re.escape(first)}\b(?!'s)", fold(lead)) is not None if first else False
        kin = words.kin.get(view.people.find_relation(view.subject), frozenset())
        return is_named or word in kin or (not view.draft.slot and not words.all_kin.isdisjoint(claimed))
    if kind in view.people.names and list_words(kind)[0] in list_words(view.subject):
        return True
    names_kin = not words.all_kin.isdisjoint(claimed)
    return not view.draft.slot and (kind == "addressee" or (kind == "third" and names_kin))


def is_of_other_speaker(view: ClaimView) -> bool:
    """Whether words about oneself are claimed of another who takes part: "I won" is not "Bob won"."""
    claimed = list_words(view.draft.claim)
    own = set(list_words(view.speaker))
    others = {list_words(name)[0] for name in view.speakers if list_words(name) and name != view.speaker}
    if view.draft.slot or not own or not claimed or claimed[0] not in others or own.intersection(claimed):
        return False
    clause = view.find_clause(view.focus)
    is_addressed = view.has_cue(clause, "addressee", "third") or _WE.search(fold(clause)) is not None
    return not is_addressed and claimed[0] not in list_words(clause)


def is_absent(view: ClaimView) -> bool:
    """Whether the subject is neither named in the turn or the question nor, close by, meant by a pronoun."""
    is_known_thing = bool(view.held) and view.key in load_words().slots["ownerless"]  # "the server is stg-3 now"
    if view.subject in (USER_SUBJECT, THING_SUBJECT, AGENT_SUBJECT) or is_known_thing:
        return False
    kin = load_words().kin.get(view.people.find_relation(view.subject), frozenset())
    sought = {*list_words(view.subject), *kin}
    names_nobody = not list_owners(view, view.text[slice(*view.sentence)])
    has_pronoun = names_nobody or view.has_cue(f"{view.question} {view.text}", "third", "it")
    said = frozenset(list_words(view.near)) if has_pronoun else view.source_words
    return not any(is_said(part, said) for part in sought)


def is_denied(view: ClaimView) -> bool:
    """Whether a denial stands before the value, in its clause; before an open claim's word, close to it."""
    draft = view.draft
    if not draft.slot and draft.operation == "deny":
        return not has_words(draft.claim, "negation", "end")  # it says the opposite of its own label
    if draft.operation != "is" or draft.negated or view.key in load_words().slots["denying"]:
        return False
    lead = _ANSWER_NO.sub("", view.lead)
    if view.key == "allergies" and "lerg" not in fold(view.text[slice(*view.sentence)]):
        return False  # "cannot eat nuts" says that they do harm
    reach = _IDIOM.sub(" ", lead if draft.slot else " ".join(lead.split()[-DENIAL_REACH:]))
    return view.has_cue(reach, "negation") and not has_words(f"{draft.value} {draft.claim}", "negation", "end")


def lacks_denial(view: ClaimView) -> bool:
    """Whether a claim denies what no word around it denies or ends."""
    if view.draft.operation != "deny" and (view.draft.slot or not has_words(view.draft.claim, "negation")):
        return False
    reach = view.clause if view.place and view.draft.value else view.surroundings
    reach = reach if view.draft.slot else f"{view.question} {view.text[slice(*view.sentence)]} {view.quote}"
    taken_back = _TAKEN_BACK.match(view.text, view.focus[1])  # "84? No."
    return not taken_back and not view.has_cue(reach, "negation", "end")


def lacks_end(view: ClaimView) -> bool:
    """Whether a claim ends what no word around it ends, changes or denies."""
    if view.draft.operation != "over":
        return False
    before = fold(view.text[max(0, view.focus[0] - TOWARD_REACH) : view.focus[0]]).split() if view.place else []
    names = ["negation", "end"]
    if not (before and before[-1] in load_words()["toward"]):
        names += ["change", "happened"] if view.key in load_words().slots["events"] | {""} else ["change"]
    return not view.has_cue(view.surroundings, *names)


def _is_current(view: ClaimView) -> bool:
    return view.draft.operation == "is" and view.tense == "current" and bool(view.draft.slot)


def is_ended(view: ClaimView) -> bool:
    """Whether a current value stands behind a word of its end, or of the past without "since".

    Of an open claim only words such as "used to" count.
    """
    draft = view.draft
    if not draft.slot:
        is_told = has_words(draft.claim, "end", "negation", "past")
        return draft.operation == "is" and not is_told and _STOPPED.search(fold(view.lead)) is not None
    if not _is_current(view) or view.key in load_words().slots["denying"] or has_words(draft.value, "end", "negation"):
        return False
    may_be_past = view.key != "birthplace" and draft.mark != "correct" and not _HOLDS_ON.search(view.clause)
    return view.has_cue(view.lead, "end") or (may_be_past and view.has_cue(view.lead, "past"))


def is_planned(view: ClaimView) -> bool:
    """Whether a current value stands behind a word of plans, or beside a written day to come."""
    dated = load_words().slots["events"] | load_words().slots["dates"]
    if not view.draft.slot:
        is_told = has_words(view.draft.claim, "end", "negation", "past")
        return view.draft.operation == "is" and not is_told and _STOPPED.search(fold(view.lead)) is not None
    if not _is_current(view) or view.key in dated or has_words(view.draft.claim, "plan"):
        return False
    return view.has_cue(view.lead, "plan") or (view.day is not None and _names_day_to_come(view.clause, view.day))


def _names_day_to_come(clause: str, day: date) -> bool:
    months = [name[:3] for name in MONTHS]
    found = [(months.index(month.casefold()) + 1, int(number)) for number, month in _WRITTEN_DAY.findall(clause)]
    ahead = [(month - day.month) * 31 + number - day.day for month, number in found]
    return any(0 < days < MAX_DAYS_AHEAD for days in ahead) and not _UNTIL.search(clause)


def lacks_plan(view: ClaimView) -> bool:
    """Whether a planned value stands in words without a plan, a future verb or a day to come."""
    is_plan = view.tense == "future" and view.draft.operation == "is" and bool(view.draft.slot)
    if not is_plan or view.key in load_words().slots["events"]:
        return False
    is_short = len(view.quote.split()) <= MAX_PLAN_QUOTE_WORDS
    text = view.quote if is_short else view.text[slice(*view.sentence)]
    if view.has_cue(text, "plan") or find_direction(view.text.lower(), view.focus[0]) == "future":
        return False
    return not (_TO_COME.search(text) and not _SINCE.search(text))


def lacks_past(view: ClaimView) -> bool:
    """Whether a past value stands in words without a past, an end or a change."""
    if view.tense != "past" or view.draft.operation != "is" or not view.draft.slot:
        return False
    is_told = _PAST_FORM.search(view.surroundings) or _SINCE.search(view.surroundings)
    return not is_told and not view.has_cue(view.surroundings, "past", "end", "change", "negation", "happened")


def is_supposed(view: ClaimView) -> bool:
    """Whether a value stands behind a supposition that the claim does not have."""
    if has_words(view.draft.claim, "suppose", "plan"):
        return False
    if not view.draft.slot:
        return _UNREAL.search(fold(view.lead)) is not None
    return view.has_cue(view.lead, "suppose")


def is_asked(view: ClaimView) -> bool:
    """Whether the sentence of the value is a question."""
    end = view.sentence[1]
    is_question = view.text[end : end + 1] in ("?", "？")
    is_value = view.draft.operation == "is" and bool(view.draft.slot)
    if view.draft.operation == "deny" and _TAKEN_BACK.match(view.text, view.focus[1]):
        return False
    has_statement = view.text[slice(*view.sentence)].lstrip()[:1] == "¿"  # "Vivo en Lugo, ¿y tú?" is split before it
    return is_question and not has_statement and (is_value or not _ASKED_FOR.search(view.draft.claim))


def lacks_kin(view: ClaimView) -> bool:
    """Whether somebody unknown is told to be of the user's kin without a word for it."""
    kin = load_words().kin.get(view.key)
    if kin is None or any(is_same_value(view.draft.value, each) for each in view.held):
        return False
    is_known = view.people.find_relation(view.draft.value) == view.key and bool(view.held)
    near = frozenset(list_words(view.near))
    return not is_known and not any(is_said(word, near) for word in kin)


def lacks_cue(view: ClaimView) -> bool:
    """Whether no word that goes with the slot stands in the turn or the question, of slots that have few such words."""
    cues = load_words().cues.get(view.key)
    if any(is_same_value(view.draft.value, each) for each in view.held):
        return False
    if cues is None or view.draft.mark == "correct":
        return _has_unsaid_thing(view)
    said = [*view.held, view.draft.value]
    is_a_year_on = (
        view.key == "age" and len(said) == 2 and all(map(str.isdigit, said)) and int(said[1]) - int(said[0]) == 1
    )
    return not is_a_year_on and not any(
        word.startswith(cues) or word.endswith(_LONG_ENDINGS) for word in view.answer_words
    )


def _has_unsaid_thing(view: ClaimView) -> bool:
    """Whether the thing of a slot such as `the:staging server` was not named lately.

    Only an English turn tells, because models name things in English, too, and a property of a named subject ("Tess, a
    collie") needs no word of its own.
    """
    is_told_by_name = view.subject not in (USER_SUBJECT, THING_SUBJECT, AGENT_SUBJECT)
    if view.key != "the" or is_told_by_name or find_languages(view.text) != ("english",):
        return False
    near = split_compounds(list_words(f"{view.near} {view.shared}"))
    thing = list_content_words(view.draft.slot.partition(":")[2])
    return bool(thing) and not any(is_said(word, near) for word in thing)


def is_common_word(view: ClaimView) -> bool:
    """Whether one small word stands where a name or a phrase is meant, of an author who writes names with a capital."""
    value = view.draft.value
    if view.key not in load_words().slots["names_or_phrases"] or view.draft.operation != "is" or not view.has_capitals:
        return False
    return value.isalpha() and value.islower() and value != "none"


def names_held_value(view: ClaimView) -> bool:
    """Whether the turn says the value that is held, and nothing of a change, where the claim has another one."""
    if not _is_current(view) or view.draft.mark == "correct" or not view.is_single:
        return False
    said = frozenset(list_words(view.text))
    held = [list_content_words(each) for each in view.held if not is_same_value(each, view.draft.value)]
    is_named = any(words and said.issuperset(words) for words in held)
    own = set(list_content_words(view.draft.value))
    is_more = any(own & set(words) for words in held)
    is_changed = has_words(view.text, "end", "change") or view.has_cue(view.text, "negation")
    return is_named and not is_more and not is_changed


def has_unsaid_verb(view: ClaimView) -> bool:
    """Whether the first full word that an open claim says of its subject was neither said nor is one of telling."""
    if view.draft.slot or _POSSESSIVE_START.match(view.draft.claim):
        return False
    words = load_words()
    names = f"{view.subject} {' '.join(view.people.names)} {view.names} {_FILLERS}"
    skipped = ({*list_words(names), *words.all_kin, *map(fold, MONTH_NUMBERS)} | words["function"]) - _VERBS
    said = [word for word in list_words(_PLANS_TO.sub("", view.draft.claim)) if not word.isdigit()]
    first = next((word for word in said if word not in skipped), "")
    told = words["light"] | words["plain"] | words["telling"]
    if not first or first in told or any(tokenize(first) == tokenize(word) for word in words["telling"]):
        return False
    return not is_said(first, view.source_words)
