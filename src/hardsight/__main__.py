"""`python -m hardsight`, the same as the command `hardsight`: for launchers such as torchrun, which start modules."""

from hardsight.cli import main

if __name__ == "__main__":
    main()
