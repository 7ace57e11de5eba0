#!/usr/bin/env bash
# Every run of the MiniGrid table, then its raw rows in one CSV file (docs/reproduce.md).
#
#   benchmarks/minigrid.sh [-j JOBS] [-r RUNS_DIR] [-o CSV] [-e EXPERIMENTS] [-s SEEDS] [-- OPTIONS OF sfl train]
#
#   -j  processes at once (1); each computes with one thread
#   -r  where the runs go (runs/minigrid)
#   -o  the CSV file (benchmarks/results/minigrid-episodes.csv)
#   -e  only experiments that match this pattern of grep -E, e.g. '^sfl-'
#   -s  at most this many seeds of each
#
# Finished runs are kept, broken-off ones go on where they stopped: after an interruption call it again.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(dirname "$here")"

# experiment, number of seeds
experiments="
sfl-fourroom          5
sfl-multiroom-n2     15
sfl-multiroom-n3     15
sfl-multiroom-n4     15
paper-fourroom        5
paper-multiroom-n2    2
paper-multiroom-n3    5
paper-multiroom-n4    2
tabular-fourroom      5
tabular-multiroom-n3  5
random-fourroom       5
random-multiroom-n2   5
random-multiroom-n3   5
random-multiroom-n4   5
"

jobs=1 runs="$root/runs/minigrid" out="$here/results/minigrid-episodes.csv" only=. most=1000
while getopts "j:r:o:e:s:h" option; do
    case "$option" in
        j) jobs="$OPTARG" ;;
        r) runs="$OPTARG" ;;
        o) out="$OPTARG" ;;
        e) only="$OPTARG" ;;
        s) most="$OPTARG" ;;
        h) sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
        *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))

if [ -z "${PYTHON:-}" ]; then
    PYTHON="$root/.venv/bin/python"
    [ -x "$PYTHON" ] || PYTHON=python3
fi
export PYTHON RUNS="$runs" OMP_NUM_THREADS=1

run_one() {
    local experiment="$1" seed="$2" name path
    shift 2
    name="$(printf '%s/seed-%04d' "$experiment" "$seed")"
    path="$RUNS/$name"
    local log="$RUNS/logs/${name/\//-}.log"
    if [ -d "$path" ]; then
        set -- resume "$path" # says so when the run is finished, and when it has no checkpoint to go on from
    else
        set -- train "$experiment" --seed "$seed" --runs-dir "$RUNS" "$@"
    fi
    if "$PYTHON" -m sfl "$@" >>"$log" 2>&1; then
        echo "done   $name"
    else
        echo "FAILED $name: $(tail -n 1 "$log")" >&2
        return 1
    fi
}
export -f run_one

chosen="$(awk 'NF == 2 { print }' <<<"$experiments" | grep -E -- "$only")" || {
    echo "No experiment matches '$only'." >&2
    exit 2
}
mkdir -p "$runs/logs"
awk -v most="$most" '{ for (seed = 0; seed < $2 && seed < most; seed++) print $1, seed }' <<<"$chosen" |
    xargs -P "$jobs" -L 1 bash -c 'run_one "${@: -2:1}" "${@: -1:1}" "${@:1:$#-2}"' run_one "$@"

"$PYTHON" "$here/collect.py" "$runs" --out "$out"
"$PYTHON" -m sfl report "$out"
