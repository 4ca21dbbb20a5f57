# shellcheck shell=bash
# refused.sh FILE TEXT: every command that reads a record refuses the file with a message that starts like this, and a help.
set -euo pipefail
record=gatekeeper-out/record.json
for args in "judge $1" "report $1" "compare $record $1" "compare $1 $record" "baseline update --record $1"; do
    code=0
    # shellcheck disable=SC2086 # words
    "$GK" $args > "$OUT/said" 2> "$OUT/errors" || code=$?
    test $code = 2
    [[ $(< "$OUT/errors") = "$2"* ]]
    grep -q '^  help: ' "$OUT/errors"
    test ! -s "$OUT/said"
done
