"""`python -m pullback` is the command `pullback`."""

from pullback.cli.main import script

if __name__ == "__main__":
    script()
