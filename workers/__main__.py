"""`python -m workers`: the consolidation worker."""

from workers.consolidation import run

run()
