"""Cypher as somebody asks it, narrowed to what a scope may read. Pure: text in, text out.

Every path of a MATCH is held to nodes and relationships of the user, of the readable channels, that are neither
forgotten nor archived. So the text must be in the part of Cypher that this module can take apart: reading clauses,
plain paths, no procedures, no patterns outside of MATCH. The session that runs it refuses writes all the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from agentmem.errors import InvalidRecord

MAX_QUERY_CHARS = 20_000
RESERVED_PREFIX = "__"  # of the variables and parameters that are added

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+)
    |(?P<string>'[^'\\]*'|"[^"\\]*")
    |(?P<number>(?:\d+\.\d+|\d+)(?:[eE][+-]?\d+)?)
    |(?P<parameter>\$[A-Za-z_][A-Za-z_0-9]*)
    |(?P<name>[A-Za-z_][A-Za-z_0-9]*)
    |(?P<sign>[()\[\]{}<>=+\-*/%^.,:|&!])""",
    re.VERBOSE,
)
_CLAUSES = frozenset({"MATCH", "OPTIONAL", "WITH", "RETURN", "UNWIND", "UNION", "WHERE", "ORDER", "SKIP", "LIMIT"})
_REFUSED_WORD = re.compile(
    r"ALTER|CALL|CREATE|CYPHER|DELETE|DENY|DETACH|DROP|EXPLAIN|FILTER|FINISH|FOREACH|GRANT|GRAPH|INSERT|LET|LOAD|MERGE"
    r"|NODETACH|OFFSET|PROFILE|REMOVE|RENAME|REVOKE|SEARCH|SET|SHOW|START|STOP|TERMINATE|TRANSACTIONS|USE|USING|YIELD"
)
_SUBQUERIES = frozenset({"EXISTS", "COUNT", "COLLECT"})
_PATH_FUNCTIONS = frozenset({"SHORTESTPATH", "ALLSHORTESTPATHS"})
_DOTTED_FUNCTIONS = frozenset({"date", "datetime", "duration", "localdatetime", "localtime", "point", "time"})
_CLOSING = {"(": ")", "[": "]", "{": "}"}

_VISIBLE_NODE = "__n.user_id = $__user_id AND __n.channel IN $__channels AND __n.visible_until > $__hidden"
_VISIBLE_RELATIONSHIP = "__r.channel IN $__channels AND __r.visible_until > $__hidden"


@dataclass(frozen=True, slots=True)
class _Token:
    """A piece of the text; `word` is its upper-case form where it is a name. `source` has the space before it."""

    text: str
    kind: str
    source: str

    @property
    def word(self) -> str:
        return self.text.upper() if self.kind == "name" else ""


def narrow_query(text: str) -> str:
    """The query with its paths narrowed to `$__user_id`, `$__channels` and `$__hidden`.

    Raises InvalidRecord, with the field `query` and what to write instead, for all that it cannot take apart.
    """
    if len(text) > MAX_QUERY_CHARS:
        raise _refuse(f"a query has at most {MAX_QUERY_CHARS:,} characters, got {len(text):,}")
    rewriter = _Rewriter(_tokenize(text))
    out = rewriter.rewrite(len(rewriter.tokens))
    if not any(token.word == "RETURN" for token in rewriter.tokens):
        raise _refuse("a query ends with RETURN")
    return "".join(out).strip()


def _refuse(why: str) -> InvalidRecord:
    return InvalidRecord(f"query: {why}", field="query")


def _tokenize(text: str) -> list[_Token]:
    text, tokens, place, gap = text.strip().removesuffix(";"), list[_Token](), 0, ""
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None or text.startswith(("//", "/*"), place):
            hint = "pass text with a backslash, names in backticks and comments as parameters, or leave them out"
            raise _refuse(f"cannot read {text[place : place + 12]!r}; {hint}")
        if found.lastgroup != "space":
            tokens.append(_Token(found.group(), found.lastgroup or "", gap + found.group()))
        gap = " " if found.lastgroup == "space" else ""
        place = found.end()
    _check_tokens(tokens)
    return tokens


def _check_tokens(tokens: list[_Token]) -> None:
    """Refuse what is not reading, what reads elsewhere, the names that are ours, and brackets that do not match."""
    nothing, closing = _Token("", "", ""), list[str]()
    previous = nothing
    for place, token in enumerate(tokens):
        following = tokens[place + 1] if place + 1 < len(tokens) else nothing
        if token.text in _CLOSING:
            closing.append(_CLOSING[token.text])
        elif token.text in _CLOSING.values() and (not closing or closing.pop() != token.text):
            raise _refuse(f"{token.text} closes nothing")
        if token.text.lstrip("$").startswith(RESERVED_PREFIX):
            raise _refuse(f"names that begin with {RESERVED_PREFIX} are reserved, got {token.text}")
        if token.kind == "name" and previous.kind == "number" and token.source == token.text:
            raise _refuse(f"cannot read the number {previous.text}{token.text}; pass it as a parameter")
        is_property = _is_property(tokens, place) or (following.text == ":" and previous.text in ("{", ","))
        if _REFUSED_WORD.fullmatch(token.word) and not is_property:
            raise _refuse(f"{token.word} is not allowed; a query only reads: MATCH, WHERE, WITH, UNWIND, RETURN")
        if token.kind == "name" and following.text == "(" and previous.text == ".":
            root = place
            while root >= 2 and tokens[root - 1].text == ".":
                root -= 2
            if tokens[root].text.lower() not in _DOTTED_FUNCTIONS:
                raise _refuse(f"the function {tokens[root].text}.….{token.text} is not allowed")
        previous = token
    if closing:
        raise _refuse(f"{closing[-1]} is missing")


def _is_property(tokens: list[_Token], place: int) -> bool:
    """Whether a name follows the dot of a property; the dot of a number is none."""
    owner = tokens[place - 2] if place >= 2 and tokens[place - 1].text == "." else None
    return owner is not None and (owner.kind in ("name", "parameter") or owner.text in (")", "]", "{", ","))


@dataclass
class _Rewriter:
    """One pass over the tokens."""

    tokens: list[_Token]
    place: int = 0
    added: int = 0
    _stack: list[str] = field(default_factory=list)

    def rewrite(self, end: int) -> list[str]:
        """The text of the tokens up to `end`, with each MATCH narrowed."""
        out: list[str] = []
        while self.place < end:
            token = self.tokens[self.place]
            if token.word == "MATCH" and not _is_property(self.tokens, self.place):
                out += self._narrow_match(end)
                continue
            if token.word in _SUBQUERIES and self._text(1) == "{" and self._word(2) not in ("MATCH", "OPTIONAL"):
                raise _refuse(f"write {token.word} {{ MATCH … }}")
            self._refuse_pattern()
            out.append(token.source)
            self.place += 1
        return out

    def _refuse_pattern(self) -> None:
        """Refuse a pattern in an expression, which no condition would narrow."""
        if self._text(0) == ")" and (
            (self._text(1) == "-" and self._text(2) in ("[", "-")) or (self._text(1) == "<" and self._text(2) == "-")
        ):
            raise _refuse("a pattern in an expression is not allowed; write EXISTS { MATCH … } or COUNT { MATCH … }")

    def _narrow_match(self, end: int) -> list[str]:
        """MATCH with its paths, the conditions that narrow them, and its own condition in parentheses."""
        self.place += 1
        paths, conditions = list[str](), list[str]()
        while True:
            text, condition = self._read_path()
            paths.append(text)
            conditions.append(condition)
            if self._text(0) != ",":
                break
            self.place += 1
        narrowed = [" MATCH ", ", ".join(paths), " WHERE ", " AND ".join(conditions)]
        if self._word(0) != "WHERE":
            return narrowed
        self.place += 1
        own = self.rewrite(self._find_condition_end(end))
        return [*narrowed, " AND (", *own, ")"]

    def _find_condition_end(self, end: int) -> int:
        """Where the condition ends that begins here: at the next clause, or where its block closes."""
        place, depth = self.place, 0
        while place < end:
            token, before = self.tokens[place], self.tokens[place - 1]
            is_operator = token.word == "WITH" and before.word in ("STARTS", "ENDS")
            is_clause = token.word in _CLAUSES and not is_operator and not _is_property(self.tokens, place)
            if depth == 0 and (token.text in _CLOSING.values() or is_clause):
                return place
            depth += (token.text in _CLOSING) - (token.text in _CLOSING.values())
            place += 1
        return end

    def _read_path(self) -> tuple[str, str]:
        """The text of one path, and the condition that narrows it."""
        name = self._new_name()
        if self.tokens[self.place : self.place + 1] and self._text(1) == "=" and self._kind(0) == "name":
            name, self.place = self._text(0), self.place + 2
        function = ""
        if self._word(0) in _PATH_FUNCTIONS:
            function = self._text(0)
            self.place += 1
            self._take("(")
        start, first = self._read_node(is_first=True)
        out = [first]
        while self._text(0) in ("-", "<"):
            out.append(self._read_relationship())
            out.append(self._read_node()[1])
        if function:
            self._take(")")
            out = [f"{function}(", *out, ")"]
        condition = (
            f"{start}.user_id = $__user_id AND {start}.key > '' AND {start}.channel IN $__channels"
            f" AND all(__n IN nodes({name}) WHERE {_VISIBLE_NODE})"
            f" AND all(__r IN relationships({name}) WHERE {_VISIBLE_RELATIONSHIP})"
        )
        return f"{name} = {''.join(out)}", condition

    def _read_node(self, *, is_first: bool = False) -> tuple[str, str]:
        """The variable and the text of a node; the first one of a path is found by an index of all records."""
        self._take("(")
        variable = ""
        if self._kind(0) == "name":
            if self._word(0) in _CLAUSES:
                raise _refuse("write the condition of a node behind the pattern: MATCH (n) WHERE …")
            variable, self.place = self._text(0), self.place + 1
        if is_first and not variable:
            variable = self._new_name()
        labels = self._read_labels()
        if is_first:
            labels = f":Record&({labels[1:]})" if labels else ":Record"
        properties = self._read_block("{") if self._text(0) == "{" else ""
        self._take(")", "write nodes as (variable:Label {property: value})")
        return variable, f"({variable}{labels}{' ' if properties else ''}{properties})"

    def _read_labels(self) -> str:
        """A label expression with & for the colons of the older style; "" for none."""
        if self._text(0) != ":":
            return ""
        out: list[str] = []
        self.place += 1
        while self._kind(0) == "name" or self._text(0) in (":", "&", "|", "!", "(", ")", "%"):
            text = self._text(0)
            if text == ")" and out.count("(") == out.count(")"):
                break
            out.append("&" if text == ":" else text)
            self.place += 1
        return ":" + "".join(out)

    def _read_relationship(self) -> str:
        """The text of a relationship, with its arrow."""
        out: list[str] = []
        if self._text(0) == "<":
            out.append("<")
            self.place += 1
        self._take("-")
        out.append("-")
        if self._text(0) == "[":
            out.append(self._read_block("["))
        self._take("-")
        out.append("-")
        if self._text(0) == ">":
            out.append(">")
            self.place += 1
        return "".join(out)

    def _read_block(self, opening: str) -> str:
        """The text of a balanced block; blocks hold values, no further patterns."""
        stack, out = list[str](), list[str]()
        while self.place < len(self.tokens):
            token = self.tokens[self.place]
            if token.word in ("MATCH", "WHERE"):
                raise _refuse("write conditions behind the pattern: MATCH … WHERE …")
            self._refuse_pattern()
            if token.text in _CLOSING:
                stack.append(_CLOSING[token.text])
            elif token.text in _CLOSING.values() and (not stack or stack.pop() != token.text):
                break
            out.append(token.source)
            self.place += 1
            if not stack:
                return "".join(out)
        raise _refuse(f"a {opening} is not closed")

    def _take(self, text: str, hint: str = "write paths as (a)-[r:TYPE]->(b)") -> None:
        if self._text(0) != text:
            found = self._text(0) or "the end"
            raise _refuse(f"expected {text!r} in a pattern, got {found!r}; {hint}")
        self.place += 1

    def _new_name(self) -> str:
        self.added += 1
        return f"{RESERVED_PREFIX}{self.added}"

    def _text(self, ahead: int) -> str:
        place = self.place + ahead
        return self.tokens[place].text if 0 <= place < len(self.tokens) else ""

    def _word(self, ahead: int) -> str:
        place = self.place + ahead
        return self.tokens[place].word if 0 <= place < len(self.tokens) else ""

    def _kind(self, ahead: int) -> str:
        place = self.place + ahead
        return self.tokens[place].kind if 0 <= place < len(self.tokens) else ""
