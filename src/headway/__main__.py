"""`python -m headway` is the command `headway`."""

from headway.cli.main import main

if __name__ == "__main__":
    main()
