# shellcheck shell=bash

# drawn CODE: prints the seed that a run against a base says it has drawn, on the terminal and in its reports.
drawn() {
    local code=0 seed
    "$GK" run --device sim --base HEAD~1 > "$OUT/said" 2> "$OUT/errors" || code=$?
    test "$code" = "$1"
    seed=$(sed -n 's/.*--seeds \([0-9]*\)`.*/\1/p' "$OUT/errors")
    test -n "$seed"
    for text in "$OUT/said" gatekeeper-out/report.md gatekeeper-out/report.html; do
        tr -s '[:space:]' ' ' < "$text" | grep -c "extra seed $seed drawn from the commit" > /dev/null
    done
    echo "$seed"
}

# first_of SEED: prints the bits of the first element of `x` in a dump.
first_of() {
    find "$OUT/$1" -name '*x.npy' -print0 | sort -z | tail -z -n 1 | xargs -0 tail -c 1024 | od -A n -t u4 -N 4 | tr -d ' '
}
