#!/usr/bin/env bash
# The MiniGrid table; options as in table.sh.
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
exec "$here/table.sh" "$here/minigrid.txt" -o "$here/results/minigrid-episodes.csv.gz" "$@"
