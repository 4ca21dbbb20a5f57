#!/usr/bin/env bash
# Runs launches that the tests of ptxsim kept alone and under compute-sanitizer's four tools, a line for each launch and tool:
# name, tool, outcome of the launch, number of errors or hazards, first message. On a machine with a GPU:
#   dev/proof/faults.sh LAUNCHER DIRECTORY < names > faults.tsv
# LAUNCHER is dev/proof/launcher.cu; DIRECTORY has the launches and their modules as .cubin.
set -euo pipefail
watch() {
    local launcher=$1 directory=$2 tool=$3 name=$4 text outcome count first
    local before=(compute-sanitizer --tool "$tool" --print-limit 1)
    [ "$tool" = racecheck ] && before+=(--racecheck-report all)
    [ "$tool" = alone ] && before=()
    text=$(timeout 60 "${before[@]}" "$launcher" "$directory" "$name" 2>&1) || [ $? != 124 ] || text+=$'\n========= did not end'
    outcome=$(grep -aF "$name"$'\t' <<<"$text" | head -1 | cut -f2) || true
    count=$(grep -aoE "(ERROR SUMMARY: [0-9]+ error|RACECHECK SUMMARY: .*)" <<<"$text" | head -1) || true
    first=$(grep -aE "^=========     ? ?[A-Z]|^========= (Invalid|Uninit|Error|Warning|Race|Barrier|Program hit|did not)" <<<"$text" |
        grep -av "SUMMARY\|COMPUTE-SANITIZER" | head -1 | sed 's/^========= *//') || true
    printf '%s\t%s\t%s\t%s\t%s\n' "$name" "$tool" "${outcome:--}" "${count:--}" "${first:--}"
}
export -f watch
names=$(cat)
for tool in alone memcheck racecheck initcheck synccheck; do
    sed "s/^/$tool /" <<<"$names"
done | xargs -P 12 -L 1 bash -c 'watch "$@"' watch "$1" "$2"
