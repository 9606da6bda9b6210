"""`python -m luminal.cli` is the `luminal` command."""

from .main import main

main()
