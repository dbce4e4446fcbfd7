"""`agentmem graph`: who is near, how two are tied, who belongs together, who matters."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from agentmem.cli.context import CliContext, print_notices
from agentmem.cli.render import bold, dim, format_time, pluralize, render_record, to_one_line
from agentmem.cli.verbs import VerbGroup, build_command
from agentmem.core.jsonable import to_jsonable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentmem.core.record import Key
    from agentmem.core.records import Edge
    from agentmem.memory.graph.knowledge_graph import CentralEntities, Communities, CypherResult, GraphPath, GraphPaths
    from agentmem.memory.semantic.entities import EntityGraph


def _show(cli: CliContext, found: Any, lines: list[str], nothing: str) -> None:
    print_notices(getattr(found, "notices", ()))
    cli.show(to_jsonable(found), "\n".join(lines) or nothing)


def _show_neighborhood(cli: CliContext, near: EntityGraph) -> None:
    names = {each.key: each.name for each in near.entities}
    lines = []
    for record in (*near.entities, *near.facts):
        lines += [render_record(record), dim(f"    {record.kind.lower()} {record.id}")]
    lines += [_render_edge(edge, names) for edge in near.edges]
    _show(cli, near, lines, "nothing found")


def _show_paths(cli: CliContext, found: GraphPaths) -> None:
    lines = [line for number, path in enumerate(found.paths, start=1) for line in _render_path(number, path)]
    _show(cli, found, lines, "no path found")


def _render_path(number: int, path: GraphPath) -> list[str]:
    names = {each.key: getattr(each, "name", "") for each in path.records}
    lines = [f"{bold(f'{number:>2}.')} {render_record(path.records[0])}"]
    for step, record in zip(path.steps, path.records[1:], strict=True):
        lines += [f"    {_render_edge(edge, names)}" for edge in step.edges]
        lines += [dim(f"      rests on: {render_record(each)}") for each in step.rests_on if each not in path.records]
        lines.append(f"    {render_record(record)}")
    return lines


def _render_edge(edge: Edge, names: Mapping[Key, str]) -> str:
    from agentmem.memory.graph.edge_reader import describe_key, find_ends

    source, target = (names.get(key) or describe_key(key) for key in find_ends(edge))
    since = f" from {format_time(edge.valid_from)}" if edge.valid_from is not None else ""
    until = f" until {format_time(edge.valid_to)}" if edge.valid_to is not None else ""
    return to_one_line(f"{source} -- {edge.properties.get('name') or edge.edge_kind} -> {target}{since}{until}")


def _show_communities(cli: CliContext, found: Communities) -> None:
    lines = []
    for group in found.communities:
        more = ", …" if group.size > len(group.entities) else ""
        named = ", ".join(each.name for each in group.entities)
        lines.append(f"{bold(pluralize(group.size, 'member'))}: {to_one_line(named + more)}")
    _show(cli, found, lines, "no communities")


def _show_central(cli: CliContext, found: CentralEntities) -> None:
    lines = []
    for each in found.entities:
        lines += [f"{each.score:.4f} {render_record(each.entity)}", dim(f"       {each.entity.id}")]
    _show(cli, found, lines, "no entity is tied to another")


def _read_json(_context: click.Context, _option: click.Parameter, text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f'must be a JSON object such as {{"name": "Mira"}}: {error}') from None


def _show_rows(cli: CliContext, found: CypherResult) -> None:
    lines = [to_one_line(" | ".join(_render_cell(value) for value in row.values())) for row in found.rows]
    _show(cli, found, [bold(" | ".join(found.columns)), *lines] if lines else [], "no rows")


def _render_cell(value: Any) -> str:
    value = value.get("title", value) if isinstance(value, dict) else value
    return value if isinstance(value, str) else json.dumps(to_jsonable(value), ensure_ascii=False)


graph_group = VerbGroup(
    "graph",
    (
        build_command(
            "neighborhood",
            "What is around an entity.",
            "List entities, facts and relations around ENTITY, an id or a name, nearest first.",
            "graph neighborhood Mira --depth 2",
            lambda memory, entity, depth, limit: memory.graph.neighborhood(entity, depth, limit=limit),
            _show_neighborhood,
            click.argument("entity", metavar="ENTITY"),
            click.option("--depth", type=click.IntRange(1, 3), default=1, show_default=True, help="How many steps."),
            click.option("--limit", type=click.IntRange(0), default=50, show_default=True, help="Records at most."),
        ),
        build_command(
            "paths",
            "How two entities are tied.",
            "Find the shortest paths between A and B, ids or names of entities, or `user`.\n\n"
            "They go over relations; where none tie the two, over turns and facts that name both.",
            "graph paths Mira Oslo --max-steps 3\n  agentmem graph paths Mira Ben --kind WORKS_FOR --kind KNOWS",
            lambda memory, a, b, max_steps, limit, kind: memory.graph.paths(
                a, b, max_steps, limit=limit, kinds=kind or None
            ),
            _show_paths,
            click.argument("a", metavar="A"),
            click.argument("b", metavar="B"),
            click.option("--max-steps", type=int, default=4, show_default=True, help="Edges of a path, 1 to 6."),
            click.option("--limit", type=int, default=5, show_default=True, help="How many paths, 1 to 50."),
            click.option("--kind", multiple=True, metavar="NAME", help="Only edges of this kind; may be repeated."),
        ),
        build_command(
            "communities",
            "Groups of entities.",
            "List groups of entities that are tied more to each other than to the rest. Needs the extra\n"
            "`graph-analysis`.",
            "graph communities --min-size 3",
            lambda memory, min_size, limit: memory.graph.communities(min_size, limit=limit),
            _show_communities,
            click.option("--min-size", type=int, default=2, show_default=True, help="Entities of a group at least."),
            click.option("--limit", type=int, default=20, show_default=True, help="How many groups."),
        ),
        build_command(
            "central",
            "The most central entities.",
            "List the entities that are tied most to others, with their share of the centrality (PageRank).",
            "graph central --limit 10",
            lambda memory, limit: memory.graph.central_entities(limit=limit),
            _show_central,
            click.option("--limit", type=int, default=20, show_default=True, help="How many."),
        ),
        build_command(
            "cypher",
            "A query to Neo4j.",
            "Ask the graph on Neo4j a reading QUERY in Cypher, over what this user and channel may read. Needs\n"
            "graph_url. docs/ask-the-graph.md says what is there.",
            'graph cypher "MATCH (f:Fact) RETURN f.title LIMIT 5"\n'
            "  agentmem graph cypher 'MATCH (e {name: $name})--(x) RETURN x.title' --parameters '{\"name\": \"Mira\"}'",
            lambda memory, query, parameters, limit: memory.graph.cypher(query, parameters, limit=limit),
            _show_rows,
            click.argument("query", metavar="QUERY"),
            click.option("--parameters", callback=_read_json, metavar="JSON", help="Values for the names after $."),
            click.option("--limit", type=int, default=1000, show_default=True, help="The most rows."),
        ),
    ),
    summary="Who is tied to whom.",
    text="Questions to the graph of what is known. Only `cypher` needs a graph database.",
)

COMMANDS = (graph_group,)
