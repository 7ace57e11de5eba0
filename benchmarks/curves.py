"""Draw success over environment steps from gathered rows of every evaluation, a picture for each pattern.

python benchmarks/curves.py FILE.csv.gz --out FOLDER [--png] NAME=REGEX...
"""

from __future__ import annotations

import argparse
import csv
import io
import re
import sys
from pathlib import Path

from sfl.errors import SflError, UsageError
from sfl.files import read_text
from sfl.old_names import new_name
from sfl.run.evaluate import EpisodeRow
from sfl.run.folder import read_episodes
from sfl.show.curves import success_figure, success_svg
from sfl.show.style import SCREEN, save_png

COUNT_COLUMNS = (
    *("experiment", "agent", "env", "maze", "spawn", "seed", "env_steps", "level"),
    *("episodes", "successes"),
)
"""Of a file of `collect.py --counts`."""


def read_rows(file: Path) -> list[EpisodeRow]:
    """Episodes as they were gathered, or as many successes as `collect.py --counts` counted: a curve needs no more."""
    if "successes" not in read_text(file).partition("\n")[0]:
        return read_episodes(file)
    rows = []
    for line in csv.DictReader(io.StringIO(read_text(file))):
        texts = (new_name(line["experiment"]), *(line[name] for name in COUNT_COLUMNS[1:5]))
        first = (*texts, int(line["seed"]), int(line["env_steps"]), line["level"])
        successes = int(line["successes"])
        rows += [EpisodeRow(*first, pair, 0, int(pair < successes), 0, "") for pair in range(int(line["episodes"]))]
    return rows


def draw(file: Path, pictures: dict[str, str], out: Path, png: bool = False) -> list[Path]:
    """FOLDER/NAME.svg for each name, with the curves of the experiments that its pattern finds."""
    rows = read_rows(file)
    chosen = {name: [row for row in rows if re.search(pattern, row.experiment)] for name, pattern in pictures.items()}
    empty = [name for name, own in chosen.items() if not own]
    if empty:
        raise UsageError(f"No experiment in {file} for {empty[0]}={pictures[empty[0]]}; correct the pattern.")
    out.mkdir(parents=True, exist_ok=True)
    files = [out / f"{name}.{'png' if png else 'svg'}" for name in chosen]
    for path, own in zip(files, chosen.values(), strict=True):
        if png:
            save_png(success_figure(own, SCREEN).figure, path)
        else:
            path.write_text(success_svg(own), encoding="utf-8")
    return files


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path, help="what `collect.py --every-evaluation` wrote")
    parser.add_argument("pictures", nargs="+", metavar="NAME=REGEX", help="a picture and the experiments in it")
    parser.add_argument("--out", required=True, type=Path, help="the folder to write to")
    parser.add_argument("--png", action="store_true", help="PNG in place of SVG")
    options = parser.parse_args()
    try:
        if bad := [word for word in options.pictures if "=" not in word]:
            raise UsageError(f"A picture is NAME=REGEX, got {bad[0]}.")
        for path in draw(options.file, dict(word.split("=", 1) for word in options.pictures), options.out, options.png):
            print(path)
    except SflError as error:
        print(f"curves.py: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
