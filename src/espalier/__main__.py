"""`python -m espalier`: the command line."""

from .cli import main

main()
