"""Exit codes: 0 done, 1 a store or a model failed, 2 input that cannot work, 3 done, and something needs attention."""

from __future__ import annotations

EXIT_FAILURE, EXIT_USAGE, EXIT_NEEDS_ATTENTION = 1, 2, 3
EXIT_INTERRUPTED = 130  # by the keyboard, as shells have it
