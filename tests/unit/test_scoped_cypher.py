"""Cypher that somebody asks: what is taken apart and narrowed, and what is refused before a server sees it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem.errors import InvalidRecord
from agentmem.stores.neo4j.scoped_cypher import MAX_QUERY_CHARS, narrow_query

REFUSED = (
    "CREATE (n) RETURN n",
    "MATCH (n) SET n.x = 1 RETURN n",
    "MATCH (n) DETACH DELETE n RETURN 1",
    "MERGE (n:Fact) RETURN n",
    "CALL db.labels() YIELD label RETURN label",
    "CALL { MATCH (n) RETURN n } RETURN n",
    "call apoc.cypher.run('MATCH (n) RETURN n', {}) YIELD value RETURN value",
    "RETURN apoc.meta.type(1)",
    "LOAD CSV FROM 'file:///etc/passwd' AS line RETURN line",
    "SHOW DATABASES",
    "USE system MATCH (n) RETURN n",
    "CYPHER 25 MATCH (n) RETURN n",
    "PROFILE MATCH (n) RETURN n",
    "MATCH (n) USING INDEX n:Fact(user_id) RETURN n",
    "MATCH (n)",
    "RETURN [(a)-->(b) | b]",
    "RETURN [(a:Fact)-[:ABOUT]->(b) | b.name]",
    "MATCH (a) WHERE (a)--(:Fact) RETURN a",
    "MATCH (a) WHERE (a) <-[:ABOUT]- () RETURN a",
    "RETURN EXISTS { (a)-->(b) }",
    "RETURN COUNT { (:Fact) }",
    "MATCH (a WHERE a.x = 1) RETURN a",
    "MATCH ((a)-->(b)){1,3} RETURN a",
    "MATCH SHORTEST 1 (a)-->(b) RETURN a",
    "MATCH (a)-[r WHERE r.x = 1]->(b) RETURN a",
    "MATCH (a {x: EXISTS { MATCH (b) }}) RETURN a",
    "MATCH (n) WHERE true) OR (true RETURN n",
    "MATCH (n) WHERE (true RETURN n",
    "MATCH (n) RETURN n /* all */",
    "MATCH (n) // all\nRETURN n",
    "MATCH (`n`) RETURN `n`",
    "MATCH (n) WHERE n.x = 'a\\u0027' RETURN n",
    "MATCH \\u0028n) RETURN n",
    "MATCH (__n) RETURN __n",
    "MATCH (n) WHERE n.user_id = $__user_id RETURN n",
    "WITH 1. MATCH (n) RETURN n",
    "WITH 0x1F. MATCH (n) RETURN n",
    "WITH 1_0. MATCH (n) RETURN n",
    "MATCH (n:$($label)) RETURN n",
    "MATCH (n); MATCH (m) RETURN m",
    "",
    "x" * (MAX_QUERY_CHARS + 1),
)
NARROWED = re.compile(r"__n\.user_id = \$__user_id AND __n\.channel IN \$__channels")


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:40])
def test_what_cannot_be_narrowed_is_refused(text: str) -> None:
    with pytest.raises(InvalidRecord) as error:
        narrow_query(text)
    assert error.value.field == "query"
    assert str(error.value).startswith("query: ")


@pytest.mark.parametrize(
    "text, matches",
    [
        ("RETURN 1 AS one", 0),
        ("MATCH (f:Fact) RETURN f.claim;", 1),
        ("match (f:Fact) return f.claim", 1),
        ("MATCH (a)-[r:KNOWS|PART_OF*1..3]->(b:Entity {name: $name}) WHERE a.name STARTS WITH 'x' RETURN b", 1),
        ("MATCH (a), (b:Fact:Record) OPTIONAL MATCH (a)<-[:ABOUT]-(f) RETURN a, b, count(f)", 3),
        ("MATCH p = shortestPath((a:Entity)-[*..4]-(b:Entity)) RETURN [n IN nodes(p) | n.title]", 1),
        ("MATCH (a) WHERE EXISTS { MATCH (a)--(b) WHERE b.x = 1 } OR a.y RETURN COUNT { MATCH (c) RETURN c }", 3),
        ("UNWIND $names AS name WITH name ORDER BY name LIMIT 2 MATCH (e {name: name}) RETURN e.match, e.set", 1),
        ("MATCH (a) RETURN a UNION MATCH (b) RETURN b AS a", 2),
        ("MATCH (f:Fact) WHERE f.valid_from > datetime() - duration('P7D') RETURN date.truncate('week', date())", 1),
    ],
)
def test_each_path_is_narrowed_and_the_rest_is_left_as_it_was(text: str, matches: int) -> None:
    narrowed = narrow_query(text)
    assert len(NARROWED.findall(narrowed)) == matches
    assert narrowed.endswith(text.removesuffix(";").split("RETURN")[-1].split("return")[-1])


def test_the_condition_of_a_match_cannot_widen_it() -> None:
    narrowed = narrow_query("MATCH (f:Fact) WHERE f.x = 1 OR true RETURN f")
    assert narrowed.index("AND ( f.x = 1 OR true)") > narrowed.index("$__hidden")


@given(st.text(alphabet="MATCHRETURN WHERE()[]{}<>-=.,:|&!'\"$nabf_*0129\\/", max_size=60))
def test_any_text_is_narrowed_or_refused(text: str) -> None:
    try:
        narrowed = narrow_query(text)
    except InvalidRecord:
        return
    assert narrowed.upper().count("MATCH ") <= len(NARROWED.findall(narrowed)) + text.upper().count(".MATCH")
