"""`python -m roost`."""

from roost.cli import main

if __name__ == "__main__":
    main(prog_name="roost")
