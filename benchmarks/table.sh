#!/usr/bin/env bash
# Every run of a table, then its raw rows in CSV files (docs/guides/reproduce.md).
#
#   benchmarks/table.sh LIST [-j JOBS] [-c CORES] [-r RUNS_DIR] [-o CSV] [-i CSV] [-e EXPERIMENTS] [-s SEEDS]
#                       [-- OPTIONS OF sfl train]
#
#   LIST  a file with a line "experiment seeds [options]" for each experiment: benchmarks/NAME.txt; options are those of
#         sfl train, --name among them where one experiment is there with several settings
#   -j  processes at once (1); each computes with one thread
#   -c  cores for each of them alone (all for all): games then do not compete; Linux only
#   -r  where the runs go (runs/NAME)
#   -o  evaluation episodes (benchmarks/results/NAME-episodes.csv.gz), compressed if it ends in .gz
#   -i  leading indicators (benchmarks/results/NAME-indicators.csv.gz)
#   -e  only experiments that match this pattern of grep -E, e.g. '^sfl-'
#   -s  at most this many seeds of each
#
# Finished runs are kept, broken-off ones go on where they stopped: after an interruption call it again.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(dirname "$here")"

fail() {
    echo "$*" >&2
    exit 2
}

help() {
    sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
    exit 0
}

list="${1:-}"
[ "$list" != -h ] || help
[ -f "$list" ] || fail "No list of experiments '$list'; give one such as benchmarks/minigrid.txt, then the options."
shift
name="$(basename "$list" .txt)"
jobs=1 cores="" runs="$root/runs/$name" only=. most=1000
out="$here/results/$name-episodes.csv.gz" indicators="$here/results/$name-indicators.csv.gz"
while getopts "j:c:r:o:i:e:s:h" option; do
    case "$option" in
        j) jobs="$OPTARG" ;;
        c) cores="$OPTARG" ;;
        r) runs="$OPTARG" ;;
        o) out="$OPTARG" ;;
        i) indicators="$OPTARG" ;;
        e) only="$OPTARG" ;;
        s) most="$OPTARG" ;;
        h) help ;;
        *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))

if [ -z "${PYTHON:-}" ]; then
    PYTHON="$root/.venv/bin/python"
    [ -x "$PYTHON" ] || PYTHON=python3
fi
export PYTHON RUNS="$runs" CORES="$cores" LENT="" OMP_NUM_THREADS=1

planned="$(sed -e 's/#.*//' -e 's/ *$//' -e '/^$/d' "$list")"
if wrong="$(grep -vE '^[^ ]+ +[0-9]+( +--.*)?$' <<<"$planned")"; then
    fail "$list: not an experiment and its number of seeds: $wrong"
fi
chosen="$(grep -E -- "$only" <<<"$planned")" || fail "No experiment matches '$only'."

for number in "$jobs" ${cores:+"$cores"}; do
    [[ $number =~ ^[1-9][0-9]*$ ]] || fail "-j and -c take numbers from 1 on, got '$number'."
done
if [ -n "$cores" ]; then
    LENT="$("$PYTHON" -c 'import os; print(*sorted(os.sched_getaffinity(0)))')" # a batch system may lend only some
    count="$(wc -w <<<"$LENT")"
    [ $((jobs * cores)) -le "$count" ] || fail "-j $jobs -c $cores needs $((jobs * cores)) cores; there are $count."
fi

# The cores of the place among the processes at once that xargs gives this one, as taskset wants them: 4,5,6,7
own_cores() {
    local lent
    read -ra lent <<<"$LENT"
    local IFS=,
    echo "${lent[*]:SLOT*CORES:CORES}"
}

# run_one EXPERIMENT SEED [OPTIONS]
run_one() {
    local experiment="$1" seed="$2" called="$1" name path place
    shift 2
    for ((place = 1; place < $#; place++)); do
        [ "${!place}" != --name ] || called="${@:place+1:1}"
    done
    name="$(printf '%s/seed-%04d' "$called" "$seed")"
    path="$RUNS/$name"
    local log="$RUNS/logs/${name/\//-}.log"
    if [ -d "$path" ]; then
        set -- resume "$path" # says so when the run is finished, and when it has no checkpoint to go on from
    else
        set -- train "$experiment" --seed "$seed" --runs-dir "$RUNS" "$@"
    fi
    set -- "$PYTHON" -m sfl "$@"
    [ -z "$CORES" ] || set -- taskset -c "$(own_cores)" "$@"
    if "$@" >>"$log" 2>&1; then
        echo "done   $name"
    else
        echo "FAILED $name: $(tail -n 1 "$log")" >&2
        return 1
    fi
}
export -f own_cores run_one

mkdir -p "$runs/logs"
awk -v most="$most" '{
    experiment = $1; seeds = $2; options = $0
    sub(/^[^ ]+ +[0-9]+/, "", options)
    for (seed = 0; seed < seeds && seed < most; seed++) print experiment " " seed options
}' <<<"$chosen" |
    sort -s -n -k 2,2 | # every experiment once before any of them twice: what is there when time runs out is a table
    xargs -P "$jobs" ${cores:+--process-slot-var=SLOT} -L 1 \
        bash -c 'all=("${@:2:$1}"); shift "$(($1 + 1))"; run_one "$@" "${all[@]}"' run_one "$#" "$@"

"$PYTHON" "$here/collect.py" "$runs" --out "$out" --indicators "$indicators"
"$PYTHON" -m sfl report "$out"
