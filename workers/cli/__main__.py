"""``python -m workers.cli`` is ``headrace``."""

from workers.cli import main

main()
