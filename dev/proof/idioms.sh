#!/usr/bin/env bash
# Runs compute-sanitizer on the idioms of crates/ptxsim/tests/launches/idioms.rs, a line for each kernel and tool:
# file, kernel, tool, number of errors or hazards, first message. On a machine with a GPU, from the root:
#   dev/proof/idioms.sh out > out/idioms.tsv
set -euo pipefail
out=$1
mkdir -p "$out"
fixtures=crates/ptxsim/tests/fixtures
nvcc -O3 -std=c++17 -arch=sm_90 -o "$out/idioms" dev/proof/idioms.cu
for file in right faulty; do
    nvcc -O3 -std=c++17 -arch=sm_90 -lineinfo -cubin -o "$out/$file.cubin" "$fixtures/$file.cu"
done

# file, kernel, blocks, threads, n: the sizes of tests/launches/idioms.rs.
list_launches() {
    python3 - "$fixtures" crates/ptxsim/tests/launches/idioms.rs <<'PY'
import pathlib, re, sys
sizes = re.findall(r'\("(\w+)", \[(\d+), (\d+)\], (\d+)\)', pathlib.Path(sys.argv[2]).read_text())
for file in ("right", "faulty"):
    for name in re.findall(r"KERNEL\((\w+)\)", pathlib.Path(sys.argv[1], file + ".cu").read_text()):
        if name == "name":
            continue
        size = next((size[1:] for size in sizes if name.startswith(size[0])), ("3", "128", "128"))
        print(file, name, *size)
PY
}

watch() {
    local out=$1 tool=$2 file=$3 name=$4 blocks=$5 threads=$6 n=$7 text count first
    local options=(--tool "$tool" --print-limit 1)
    # Hazards within a warp are what it calls warnings.
    [ "$tool" = racecheck ] && options+=(--racecheck-report all)
    text=$(timeout 60 compute-sanitizer "${options[@]}" "$out/idioms" "$out/$file.cubin" "$name" "$blocks" "$threads" "$n" 2>&1) ||
        { [ $? = 124 ] && text+=$'\n========= did not end'; }
    count=$(grep -oE "(ERROR SUMMARY: [0-9]+ error|RACECHECK SUMMARY: .*)" <<<"$text" | head -1)
    first=$(grep -E "^=========     ? ?[A-Z]|^========= (Invalid|Uninit|Error|Warning|Race|Barrier|Program hit|did not)" <<<"$text" |
        grep -v "SUMMARY\|COMPUTE-SANITIZER" | head -1 | sed 's/^========= *//')
    printf '%s\t%s\t%s\t%s\t%s\n' "$file" "$name" "$tool" "$count" "$first"
}
export -f watch

for tool in memcheck racecheck initcheck synccheck; do
    list_launches | sed "s/^/$tool /"
done | xargs -P 12 -L 1 bash -c 'watch "$@"' watch "$out"
