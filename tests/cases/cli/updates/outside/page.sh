# shellcheck shell=bash

# named VARIABLES: runs under these variables of CI, and prints what stands behind the title of the page.
named() {
    env -u GITHUB_REPOSITORY -u GITHUB_HEAD_REF -u GITHUB_REF_NAME "$@" "$GK" run --device sim copy > "$OUT/said"
    sed -n 's|.*<title>.* judged - \(.*\)</title>.*|\1|p' gatekeeper-out/report.html | tr -d '\n'
    test -e "$OUT/first" || judged > "$OUT/first"
}

# Prints the verdicts of the last run, whole.
judged() {
    python3 -c 'import json; print(json.dumps(json.load(open("gatekeeper-out/report.json"))["verdicts"]))'
}
