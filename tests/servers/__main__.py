"""`python -m tests.servers up [KIND…]`: start the servers and keep them until Ctrl-C, for people who debug."""

from __future__ import annotations

import argparse
import signal
import sys
from contextlib import ExitStack

from tests.servers.downloads import CannotStart
from tests.servers.host import KINDS, variable


def main() -> None:
    """Start servers one after the other, print what to export, and wait."""
    parser = argparse.ArgumentParser(prog="python -m tests.servers", description="Real servers for the tests.")
    parser.add_argument("command", choices=["up"])
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}; all when left out")
    given = parser.parse_args()
    if unknown := set(given.kinds) - set(KINDS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with ExitStack() as servers:
        try:
            for kind in given.kinds or KINDS:
                server = servers.enter_context(KINDS[kind]())
                print(f"export {variable(kind)}={server.url}", flush=True)
            print("Ctrl-C stops them.", file=sys.stderr, flush=True)
            signal.pause()
        except CannotStart as error:
            sys.exit(str(error))
        except KeyboardInterrupt:
            print("stopping", file=sys.stderr)


if __name__ == "__main__":
    main()
