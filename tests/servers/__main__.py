"""`python -m tests.servers up [KIND…]`: start the servers and keep them until Ctrl-C, for people who debug.

`python -m tests.servers demo [ARGUMENTS…]` runs the demo on them, and shows what it left.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import NoReturn

from tests.servers.downloads import CannotStart
from tests.servers.host import KINDS, url_variable


def main() -> None:
    """Start servers one after the other, print what to export, and wait."""
    parser = argparse.ArgumentParser(prog="python -m tests.servers", description="Real servers for the tests.")
    parser.add_argument("command", choices=["up", "demo"])
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"up: of {', '.join(KINDS)}; all when left out")
    given, more = parser.parse_known_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if given.command == "demo":
        _demo([*given.kinds, *more])
    if more:
        parser.error(f"unknown: {' '.join(more)}")
    if unknown := set(given.kinds) - set(KINDS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    with ExitStack() as servers:
        try:
            for kind in given.kinds or KINDS:
                server = servers.enter_context(KINDS[kind]())
                print(f"export {url_variable(kind)}={server.url}", flush=True)
            print("Ctrl-C stops them.", file=sys.stderr, flush=True)
            signal.pause()
        except CannotStart as error:
            sys.exit(str(error))
        except KeyboardInterrupt:
            print("stopping", file=sys.stderr)


def _demo(arguments: Sequence[str]) -> NoReturn:
    from tests.servers.demo import demo

    with ExitStack() as servers:
        try:
            print("starting Postgres, Redis and Neo4j; the first time they are downloaded", file=sys.stderr, flush=True)
            urls = {kind: servers.enter_context(make()).url for kind, make in KINDS.items()}
            sys.exit(demo(urls, arguments))
        except CannotStart as error:
            sys.exit(str(error))


if __name__ == "__main__":
    main()
