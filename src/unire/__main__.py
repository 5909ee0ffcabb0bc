"""`python -m unire` is the `unire` command."""

from unire.cli.main import main

if __name__ == "__main__":
    main()
