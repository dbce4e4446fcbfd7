"""All routes as one page of HTML, made from their OpenAPI description. It loads nothing, and runs no script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from agentmem.server.docs_examples import build_example

CONTENT_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
body { color: #222; background: #fff; }
h2 { margin-top: 2.5rem; border-bottom: 1px solid #ccc; } h3 { margin: 1.5rem 0 .2rem; font-size: 1rem; }
code { font-family: ui-monospace, monospace; } table { border-collapse: collapse; margin: .5rem 0; }
pre { white-space: pre-wrap; padding: .4rem .6rem; background: #8881; }
td { padding: .1rem 1rem .1rem 0; vertical-align: top; } p { margin: .2rem 0; }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818; } a { color: #8ab4f8; } }
"""


def render_docs_page(description: Mapping[str, Any]) -> str:
    """The page for an OpenAPI document."""
    info = description["info"]
    groups: dict[str, list[str]] = {}
    schemas = description.get("components", {}).get("schemas", {})
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            rendered = _render_operation(method.upper(), path, operation, schemas)
            groups.setdefault(operation.get("tags", ["other"])[0], []).append(rendered)
    links = " · ".join(f'<a href="#{escape(tag)}">{escape(tag)}</a>' for tag in groups)
    parts = [f'<p>{escape(info.get("description", ""))} <a href="/openapi.json">openapi.json</a></p><p>{links}</p>']
    about = {tag["name"]: tag["description"] for tag in description.get("tags", ())}
    for tag, operations in groups.items():
        parts += [f'<h2 id="{escape(tag)}">{escape(tag)}</h2><p>{escape(about.get(tag, ""))}</p>', *operations]
    title = escape(f"{info['title']} {info['version']}")
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        f"<h1>{title}</h1>{''.join(parts)}</html>"
    )


def _render_operation(method: str, path: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    text = operation.get("description") or operation.get("summary", "")
    rows = [
        _render_row(each["name"], each["in"], each.get("schema", {}), each.get("description", ""), each.get("required"))
        for each in operation.get("parameters", ())
    ]
    rows += _list_body_rows(operation.get("requestBody"), schemas)
    table = f"<table>{''.join(rows)}</table>" if rows else ""
    example = f"<pre><code>{escape(build_example(method, path, operation, schemas))}</code></pre>"
    return f"<h3><code>{method} {escape(path)}</code></h3><p>{escape(text)}</p>{example}{table}"


def _list_body_rows(body: Mapping[str, Any] | None, schemas: Mapping[str, Any]) -> Iterator[str]:
    for kind, content in ({} if body is None else body["content"]).items():
        schema = content.get("schema", {})
        if "$ref" not in schema:
            yield _render_row("body", kind, schema, "", True)
            continue
        shape = schemas[schema["$ref"].rpartition("/")[2]]
        for name, field in shape.get("properties", {}).items():
            yield _render_row(name, "body", field, field.get("description", ""), name in shape.get("required", ()))


def _render_row(name: str, place: str, schema: Mapping[str, Any], text: str, required: bool | None) -> str:
    kinds = [each for each in (schema, *schema.get("anyOf", ())) if each.get("type") not in (None, "null")]
    kind = " or ".join(str(each["type"]) for each in kinds)
    said = f"{kind}{', required' if required else ''}"
    return f"<tr><td><code>{escape(name)}</code><td>{escape(place)}<td>{escape(said)}<td>{escape(text)}</tr>"
