#!/usr/bin/env bash
# Runs two commands at the same time, the first one with less priority: side-by-side.sh FIRST SECOND.
# If one fails, the other is stopped.
set -uo pipefail
set -m  # each has a process group of its own
nice -n 5 bash -c "$1" &
first=$!
bash -c "$2" &
second=$!
trap 'kill -- -"$first" -"$second" 2>/dev/null' EXIT
wait -n && wait -n
