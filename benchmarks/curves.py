"""Draw success over environment steps from gathered rows of every evaluation, a picture for each pattern.

python benchmarks/curves.py FILE.csv.gz --out FOLDER NAME=REGEX...
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from sfl.errors import SflError, UsageError
from sfl.run.folder import read_episodes
from sfl.show.curves import success_svg


def draw(file: Path, pictures: dict[str, str], out: Path) -> list[Path]:
    """FOLDER/NAME.svg for each name, with the curves of the experiments that its pattern finds."""
    rows = read_episodes(file)
    chosen = {name: [row for row in rows if re.search(pattern, row.experiment)] for name, pattern in pictures.items()}
    empty = [name for name, own in chosen.items() if not own]
    if empty:
        raise UsageError(f"No experiment in {file} for {empty[0]}={pictures[empty[0]]}; correct the pattern.")
    out.mkdir(parents=True, exist_ok=True)
    for name, own in chosen.items():
        (out / f"{name}.svg").write_text(success_svg(own), encoding="utf-8")
    return [out / f"{name}.svg" for name in chosen]


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path, help="what `collect.py --every-evaluation` wrote")
    parser.add_argument("pictures", nargs="+", metavar="NAME=REGEX", help="a picture and the experiments in it")
    parser.add_argument("--out", required=True, type=Path, help="the folder to write to")
    options = parser.parse_args()
    try:
        if bad := [word for word in options.pictures if "=" not in word]:
            raise UsageError(f"A picture is NAME=REGEX, got {bad[0]}.")
        for path in draw(options.file, dict(word.split("=", 1) for word in options.pictures), options.out):
            print(path)
    except SflError as error:
        print(f"curves.py: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
