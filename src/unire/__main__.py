"""`python -m unire` is the `unire` command."""

from __future__ import annotations

import signal
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command; Ctrl-C while its parts are still being imported is no crash either."""
    try:
        from unire.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)


if __name__ == "__main__":
    main()
