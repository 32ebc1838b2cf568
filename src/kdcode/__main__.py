"""`python -m kdcode` is the `kdcode` command."""

from kdcode.cli import main

if __name__ == "__main__":
    main(prog_name="kdcode")
