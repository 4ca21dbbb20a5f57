# shellcheck shell=bash
mkdir -p "$OUT/shared" "$OUT/own"
test -e "$OUT/shared/toolchains" || ln -s "$TOOLCHAINS" "$OUT/shared/toolchains"

# run_with VARIABLES: runs with these caches, and prints how many units were compiled, and how many found.
run_with() {
    env -u GATEKEEPER_SHARED_CACHE "$@" "$GK" run copy > "$OUT/said"
    python3 -c 'import json; costs = json.load(open("gatekeeper-out/report.json"))["costs"]; print("compiled", costs["compiled"], "cached", costs["cached"])'
}

# Prints all that lies in the shared cache, with when it was last changed, and a digest of each file.
state() {
    find "$OUT/shared" -printf '%p %T@\n' | sort
    find "$OUT/shared" -type f -print0 | sort -z | xargs -0 sha256sum
}
