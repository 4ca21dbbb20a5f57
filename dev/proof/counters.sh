#!/bin/bash
# Counts each kernel with ncu: counters.sh PROOF PTX_DIRECTORY OUT, with ptxas next to nvcc on the path.
# OUT/ncu.csv has the metrics of each launch, OUT/instructions.tsv the wavefronts of each kind of instruction.
set -eu
here=$(dirname "$0")
metrics="
l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum
l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum
l1tex__t_requests_pipe_lsu_mem_global_op_st.sum
l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum
l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum
l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum
smsp__sass_inst_executed_op_shared_ld.sum
smsp__sass_inst_executed_op_shared_st.sum
smsp__inst_executed_op_ldsm.sum
memory_l1_wavefronts_shared
"
# The assembler of the gate, and not the driver's.
ncu --clock-control none --target-processes application-only --force-overwrite --export "$3/ncu" \
    --metrics "$(paste -sd, <<<"$(xargs -n1 <<<"$metrics")")" \
    "$1" --ptxas "$(command -v ptxas)" launch --ptx "$2" >"$3/ncu.log"
ncu --import "$3/ncu.ncu-rep" --csv --page raw --print-units base >"$3/ncu.csv"
module=$(find /opt /usr -name ncu_report.py 2>/dev/null | head -n 1)
PYTHONPATH=$(dirname "$module") python3 "$here/instructions.py" "$3/ncu.ncu-rep" >"$3/instructions.tsv"
