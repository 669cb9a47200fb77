"""The command: record, compare, coverage."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from . import comparing, covered_lines, recording


def main() -> int:
    """Parse the command line and do what it says."""
    parser = argparse.ArgumentParser(prog="python -m tests.editions", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    recorder = commands.add_parser("record", help="run the cases and write a record")
    recorder.add_argument("out", type=Path)
    recorder.add_argument("--only", nargs="*", default=[], help="cases whose names begin so")
    recorder.add_argument(
        "--work", type=Path, help="a folder for the results, in which finished cases are taken up again"
    )
    comparer = commands.add_parser("compare", help="list the differences of two records; 1 where one is unexplained")
    comparer.add_argument("first", type=Path)
    comparer.add_argument("second", type=Path)
    comparer.add_argument("--only", nargs="*", default=[], help="cases whose names begin so")
    comparer.add_argument("--groups", type=int, default=40, help="how many groups of differences to list for a reason")
    covered = commands.add_parser("coverage", help="line coverage (coverage json) against that in a record; 1 if lower")
    covered.add_argument("record", type=Path)
    covered.add_argument("json", type=Path)
    covered.add_argument("--keep", action="store_true", help="put it into the record instead")
    covered.add_argument("--tests", default="", help="with --keep: words on the tests and their time")
    given = parser.parse_args()
    if given.command == "record":
        with tempfile.TemporaryDirectory() as folder:
            found = recording.record(given.work or Path(folder), given.only)
        recording.write(found, given.out)
        print(f"{given.out}: {len(found['cases'])} cases, {given.out.stat().st_size:,} bytes")
        return int(any("exit" in case.get("failed", "") for case in found["cases"].values()))
    if given.command == "compare":
        found = comparing.compare(*(recording.chosen(path, given.only) for path in (given.first, given.second)))
        print(comparing.report(found, longest=given.groups))
        return int(bool(found.unexplained))
    if given.keep:
        kept = recording.read(given.record)
        recording.write(kept | {"coverage": covered_lines.by_room(given.json), "tests": given.tests}, given.record)
        return 0
    words, fell = covered_lines.compare(
        recording.read(given.record).get("coverage", {}), covered_lines.by_room(given.json)
    )
    print(words)
    return int(fell)


if __name__ == "__main__":
    raise SystemExit(main())
