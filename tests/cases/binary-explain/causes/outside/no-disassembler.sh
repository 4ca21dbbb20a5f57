# shellcheck shell=bash
set -euo pipefail
if test -e /usr/local/cuda/bin/nvdisasm; then exit; fi

compare() {
    local code=0
    env -u GATEKEEPER_SHARED_CACHE -u CUDA_HOME -u CUDA_PATH GATEKEEPER_CACHE="$OUT/empty" PATH= \
        "$GK" binary new/k.cubin --base old/k.cubin "$@" || code=$?
    test $code = 1
}

reason='not explained: nvdisasm, which disassembles machine code, was not found (`gatekeeper toolchain install` installs it)'
compare --explain | grep -v '^gatekeeper ' > explained
grep -qxF "$reason" explained
compare | grep -v '^gatekeeper ' > plain
diff <(grep -vxF "$reason" explained | cat -s) <(cat -s plain)
compare --explain --format json > json
python3 -c '
import json

not_run = json.load(open("json"))["explanations"]["not_run"]
assert not_run["code"] == "no-disassembler", not_run
assert "gatekeeper toolchain install" in not_run["message"], not_run
'
