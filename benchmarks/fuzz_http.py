"""Send broken requests to `unire serve`, which runs in another process.

    python benchmarks/fuzz_http.py [--inputs 100000] [--seed 0]

Requests are changed at random: bytes, headers, lengths, chunks, line ends, versions and bodies; sent in pieces, or left
in the middle. An answer other than success or the client's fault, an answer that is not HTTP, a connection that does
not end, a line in the server's log, or a server that does not answer afterwards ends the run with the input shown.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from helpers.http_fuzz import Report, attack, mutants
from helpers.server import command

ROUND = 5000
MAX_SECONDS = 10


def memory(pid: int) -> float:
    """Resident megabytes of a process."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    report = Report()
    stream = mutants(given.seed)
    with command("--timeout", 2) as (process, address):
        assert process.stderr is not None
        for done in range(0, given.inputs, ROUND):
            started = time.perf_counter()
            some = list(islice(stream, min(ROUND, given.inputs - done)))
            asyncio.run(attack(address.port, some, report, seconds=MAX_SECONDS))
            assert address.extract({"text": "a"}).status == 200
            rate = len(some) / (time.perf_counter() - started)
            print(f"{done + len(some):9,} inputs, {rate:.0f}/s, {memory(process.pid):.1f} MB", flush=True)
            if report.wrong:
                break
        process.terminate()
        process.wait(60)
        log = process.stderr.read()
    print("first answers:", dict(sorted(report.statuses.items())), "(0: none)")
    print("wrong:", *(report.wrong[:20] or ["none"]), sep="\n")
    lines = [line for line in log.splitlines() if not line.startswith("stopped; ")]
    print("log:", *(lines[:40] or ["empty"]), sep="\n")
    sys.exit(bool(report.wrong or lines))


if __name__ == "__main__":
    main()
