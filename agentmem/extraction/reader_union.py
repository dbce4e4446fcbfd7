"""Two readers of one window: what plain rules read is kept, and a model's reply that says nothing is told from one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from agentmem.beliefs.slots import find_slot
from agentmem.beliefs.values import is_refinement, is_same_value
from agentmem.core.lifecycle import DOUBTFUL
from agentmem.extraction.drafts import ExtractionDraft, FactDraft, Window
from agentmem.extraction.grounding import is_assistant_turn
from agentmem.extraction.labels import LabelMap
from agentmem.extraction.reply_schema import ExtractionReply
from agentmem.text.normalization import normalize_claim, slugify

T = TypeVar("T")


def merge_readings(window: Window, model: ExtractionDraft, rules: ExtractionDraft) -> ExtractionDraft:
    """The model's draft with what rules read and it does not hold, in the order of the turns; rules come first.

    Of entities rules add only those that their facts name.

    What both say stands once, in the words of the model, which may add a time or what else ends.
    """
    sure = {_claim_key(fact)[1] for fact in (*model.facts, *rules.facts) if fact.certainty != DOUBTFUL}
    doubted = [fact for fact in model.facts if fact.certainty == DOUBTFUL and _claim_key(fact)[1] not in sure]
    kept = [fact for fact in model.facts if fact.certainty != DOUBTFUL]
    missing = []
    for rule in rules.facts:
        same = [at for at, fact in enumerate(kept) if _says(fact, rule, window)]
        for at in same:
            kept[at] = _join(rule, kept[at])
        missing += [] if same else [rule]
    aliases = {slugify(alias) for one in model.entities for alias in one.aliases}
    used = {slugify(name) for fact in rules.facts for name in fact.entities}
    used |= {slugify(name) for each in rules.relations for name in (each.source, each.target)}
    named = [one for one in rules.entities if slugify(one.name) in used - aliases]
    places = {turn.id: place for place, turn in enumerate(window.turns)}
    return replace(
        model,
        facts=tuple(sorted((*missing, *kept, *doubted), key=lambda fact: places.get(fact.turn_id, -1))),
        entities=_take_first((*model.entities, *named), lambda one: (one.turn_id, slugify(one.name))),
        relations=_take_first(
            (*model.relations, *rules.relations),
            lambda one: (one.turn_id, slugify(one.source), one.kind, slugify(one.target)),
        ),
    )


def list_turns(draft: ExtractionDraft) -> set[str]:
    """The ids of the turns of which a draft holds something."""
    return {
        *(each.turn_id for each in draft.facts),
        *(each.turn_id for each in draft.entities),
        *(each.turn_id for each in draft.relations),
        *(each.turn_id for each in draft.summaries),
    }


def select_turns(draft: ExtractionDraft, turn_ids: Iterable[str]) -> ExtractionDraft:
    """What a draft holds of some turns."""
    some = set(turn_ids)
    return replace(
        draft,
        facts=tuple(each for each in draft.facts if each.turn_id in some),
        entities=tuple(each for each in draft.entities if each.turn_id in some),
        relations=tuple(each for each in draft.relations if each.turn_id in some),
        summaries=tuple(each for each in draft.summaries if each.turn_id in some),
    )


def describe_emptiness(reply: ExtractionReply, draft: ExtractionDraft, rules: ExtractionDraft, window: Window) -> str:
    """Why a reply says nothing of its window; "" when it says something, or the window gives nothing to say."""
    labels = LabelMap.from_window(window)
    named = [item.turn for items in (reply.facts, reply.entities, reply.relations, reply.turns) for item in items]
    if named and labels.turns.keys().isdisjoint(named):
        return f"it names no turn of this window; its turns are {', '.join(labels.turns)}"
    unknown = [each for each in named if each not in labels.turns and each not in labels.context_turns]
    if 2 * len(unknown) > len(named):
        return f"most of its labels are unknown; the turns are {', '.join(labels.turns)}"
    people = {label for label, turn in labels.turns.items() if not is_assistant_turn(turn)}
    if not draft.facts and not people.isdisjoint(item.turn for item in reply.facts):
        reasons = dict.fromkeys(note for note in draft.notes if note.startswith("fact: "))
        return f"no fact of it can be used ({'; '.join(list(reasons)[:3]) or 'each was refused'})"
    if rules.facts and not draft.facts:
        said = {fact.turn_id for fact in rules.facts}
        return f"it holds no fact, but {', '.join(name for name, turn in labels.turns.items() if turn.id in said)} do"
    return ""


def _says(model: FactDraft, rule: FactDraft, window: Window) -> bool:
    """Whether a model's fact says what a rule read, at least as exactly."""
    if model.turn_id != rule.turn_id or model.agent_private:
        return False
    if not (model.slot and rule.slot):
        return not model.slot and _claim_key(model) == _claim_key(rule)
    if (model.slot, model.subject.casefold(), model.operation) != (rule.slot, rule.subject.casefold(), rule.operation):
        return False
    if (model.temporal_context or "current") != (rule.temporal_context or "current"):
        return False
    slot = find_slot(rule.slot, window.slots)
    return is_same_value(model.value, rule.value) or is_refinement(slot, model.value, rule.value)


def _claim_key(fact: FactDraft) -> tuple[str, str]:
    return fact.turn_id, normalize_claim(fact.claim)


def _join(rule: FactDraft, model: FactDraft) -> FactDraft:
    """The claim of the model with what a rule read beside it: the slot of an open claim, its times, a correction."""
    joined = replace(
        model,
        mark=model.mark or rule.mark,
        valid_from=model.valid_from or rule.valid_from,
        valid_to=model.valid_to or rule.valid_to,
        entities=tuple(dict.fromkeys((*model.entities, *rule.entities))),
    )
    if model.slot or not rule.slot:
        return joined
    return replace(
        joined,
        subject=rule.subject,
        slot=rule.slot,
        value=rule.value,
        operation=rule.operation,
        temporal_context=model.temporal_context or rule.temporal_context,
        memory_type=rule.memory_type,
        tags=(*model.tags, *rule.tags),
    )


def _take_first(items: Sequence[T], key: Callable[[T], object]) -> tuple[T, ...]:
    first: dict[object, T] = {}
    for item in items:
        first.setdefault(key(item), item)
    return tuple(first.values())
