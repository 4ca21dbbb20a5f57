"""Wavefronts in shared memory by kind of instruction, of each launch in a report of ncu.

python3 instructions.py REPORT, with ncu_report of ncu's extras/python on the path. A line for each launch
and kind: number of the launch, from 0 in the order of the raw page; opcode; wavefronts. Between tabs.
"""
import collections
import sys

import ncu_report

METRIC = "memory_l1_wavefronts_shared"


def opcode(sass):
    """`@!P0 LDS.128 R4, [R2]`: LDS.128"""
    words = [word for word in sass.replace("{", " ").split() if not word.startswith("@")]
    return words[0] if words else "?"


number = 0
context = ncu_report.load_report(sys.argv[1])
for r in range(context.num_ranges()):
    launches = context.range_by_idx(r)
    for a in range(launches.num_actions()):
        action = launches.action_by_idx(a)
        metric = action.metric_by_name(METRIC)
        sums = collections.Counter()
        if metric is not None:
            places = metric.correlation_ids() if metric.has_correlation_ids() else None
            for i in range(metric.num_instances() if places else 0):
                sums[opcode(action.sass_by_pc(places.as_uint64(i)))] += metric.as_uint64(i)
            # A launch without such instructions was read as well.
            sums["NONE"] += 0
        for name, wavefronts in sorted(sums.items()):
            print(number, name, wavefronts, sep="\t")
        number += 1
