"""``python -m wcbench``."""

from wcbench.cli import main

main()
