# shellcheck shell=bash
# again.sh HEAD BASE CODE: a comparison, and its record in `out`, end with this code and say the same.
set -euo pipefail
code=0
"$GK" binary "$1.cubin" --base "$2.cubin" --out out > said 2>> said || code=$?
test $code = "$3"
"$GK" judge out/record.json > again || test $? = "$3"
# How kernels were matched stands between its problems and the rest.
test -z "$(grep -vxFf said again)"
"$GK" judge out/record.json --format json > again.json || test $? = "$3"
cmp again.json out/report.json
