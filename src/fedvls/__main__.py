"""`python -m fedvls`."""

from .cli import main

main()
