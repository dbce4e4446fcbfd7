"""What a server that speaks OpenAI's protocol takes: found out by asking for less after each refusal, and kept."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

Rung = Literal["json_schema", "json_object", "text"]

RUNGS: tuple[Rung, ...] = ("json_schema", "json_object", "text")
"""How a schema is sent, best first: as one, as the wish for any JSON with the schema in the prompt, in the prompt."""

MIN_REPLY_TOKENS = 128
"""A context with less room for the reply counts as full."""

MAX_STEPS = 8
"""Refusals of one request after which nothing else is tried."""

_MARGIN_TOKENS = 16  # that servers add to a prompt
_STEP_STATUSES = (400, 422, 500, 501)
_CONTEXT_CODES = ("context_length_exceeded", "exceed_context_size_error")
_CONTEXT = re.compile(
    r"context.?(length|size|window)|max(imum)?.?model.?len|prompt is too long|"
    r"max(_completion)?_tokens.{0,40}(too large|exceed|at most|must be)",
    re.IGNORECASE,
)
_LIMIT = re.compile(r"(?:context (?:length|size|window)(?: is| of)?:? ?|> ?|n_ctx\D{1,5})(\d{3,})", re.IGNORECASE)
_PROMPT = re.compile(
    r"(\d+) (?:tokens )?(?:in|from) the (?:messages|prompt|input)|(\d+) (?:input|prompt) tokens|\((\d+) ?>|"
    r"n_prompt_tokens\D{1,5}(\d+)",
    re.IGNORECASE,
)
_REQUESTED = re.compile(r"requested (?:tokens \()?(\d+)", re.IGNORECASE)
_SYSTEM_ROLE = re.compile(
    r"system.{0,20}(role|message|prompt|instruction).{0,40}(support|allow|accept|permit|invalid)|"
    r"(support|allow|accept|permit|only|invalid|unknown).{0,60}roles?\b|roles must alternate",
    re.IGNORECASE | re.DOTALL,
)


class ContextFull(Exception):
    """Prompt and reply do not fit what the model reads at a time; `limit` tokens, None when the server did not say."""

    def __init__(self, limit: int | None) -> None:
        super().__init__("the context is full")
        self.limit = limit


@dataclass(frozen=True, slots=True)
class Endpoint:
    """How a server is asked. `is_proven`: it has answered a request with a schema that was sent so."""

    rung: Rung = "json_schema"
    folds_system: bool = False
    takes_temperature: bool = True
    is_proven: bool = False

    def step_down(
        self, status: int, message: str, *, has_schema: bool, has_system: bool, heat: bool
    ) -> Endpoint | None:
        """How to ask next after a refusal; None when nothing is left, or nothing of this is the reason."""
        if status not in _STEP_STATUSES:
            return None
        if heat and self.takes_temperature and "temperature" in message.lower():
            return replace(self, takes_temperature=False)
        if has_system and not self.folds_system and _SYSTEM_ROLE.search(message):
            return replace(self, folds_system=True)
        if not has_schema or self.rung == RUNGS[-1] or (self.is_proven and status >= 500):
            return None
        return replace(self, rung=RUNGS[RUNGS.index(self.rung) + 1], is_proven=False)


def shrink_reply(status: int, kind: str, message: str, asked: int) -> int | None:
    """The tokens that a reply may have after a refusal because of the context; None for another reason.

    Raises ContextFull when the prompt leaves no room.
    """
    if not 400 <= status <= 500 or not (any(code in kind for code in _CONTEXT_CODES) or _CONTEXT.search(message)):
        return None
    limit, prompt, requested = (_find_number(form, message) for form in (_LIMIT, _PROMPT, _REQUESTED))
    if prompt is None and requested is not None and requested > asked:
        prompt = requested - asked
    room = (
        asked // 2 if limit is None or prompt is None else min(limit - prompt - _MARGIN_TOKENS, asked // 2 + asked // 4)
    )
    if room < MIN_REPLY_TOKENS:
        raise ContextFull(limit)
    return room


def _find_number(form: re.Pattern[str], text: str) -> int | None:
    found = form.search(text)
    return int(next(each for each in found.groups() if each)) if found else None
