"""Runs kernel_tuner's strategies in its simulation mode on recorded spaces: the field that `replay` is compared with.

    pip install kernel_tuner==1.5.0
    python dev/replay/field.py SPACES OUT.jsonl --seeds 100 [--strategies diff_evo,hybrid_vndx]

SPACES is a directory of kernel_tuner caches (*.json.gz). Each line of OUT is one search: how the best time fell, as
pairs of "after so many evaluations" and time. Evaluations are counted as kernel_tuner counts its budget.
A configuration counts once, the first time it is run. One that fails to build or run counts like any other. One that
the restrictions exclude is not run and does not count.
"""

import argparse
import contextlib
import functools
import gzip
import io
import itertools
import json
import pathlib
import random
import tempfile
import warnings

import kernel_tuner
import kernel_tuner.interface
import numpy as np

# All that run without further packages, at the defaults of this version.
# `minimize` ends in the first local optimum, after about 30 evaluations.
STRATEGIES = [
    "random_sample", "diff_evo", "hybrid_vndx", "adaptive_tabu_greywolf", "genetic_algorithm", "greedy_ils",
    "greedy_mls", "ordered_greedy_mls", "mls", "simulated_annealing", "dual_annealing", "basinhopping", "pso",
    "firefly_algorithm", "nsga2", "minimize", "bayes_opt",
]

# The benchmark hub's restrictions; they leave exactly the configurations of the recordings, which is checked below.
RESTRICTIONS = {
    "convolution": [
        "use_padding==0 or block_size_x % 32 != 0",
        "block_size_x*block_size_y<=1024",
        "use_padding==0 or use_shmem != 0",
        "use_shmem == 0 or ((block_size_x*tile_size_x+(filter_width-1))"
        "*(block_size_y*tile_size_y+(filter_height-1))) < 12*1024",
    ],
    "dedispersion": [
        "block_size_x*block_size_y>=32",
        "block_size_x*block_size_y<=1024",
        "tile_stride_x==0 or tile_size_x>1",
        "tile_stride_y==0 or tile_size_y>1",
    ],
}


def strip(recording, scratch):
    """A cache without what no strategy reads: it is parsed again for each search."""
    cache = json.load(gzip.open(recording))
    for line in cache["cache"].values():
        for key in ("times", "timestamp", "GFLOP/s", "GB/s"):
            line.pop(key, None)
    path = scratch / recording.name.removesuffix(".gz")
    path.write_text(json.dumps(cache, indent=""))
    return path, cache


def share_what_is_read():
    """The space of a file and its recording are built once, not once a search. Nothing of a search is kept in them."""
    spaces, build = {}, kernel_tuner.interface.Searchspace

    def built(tune_params, restrictions, *rest, **options):
        key = json.dumps(tune_params)
        if key not in spaces:
            spaces[key] = build(tune_params, restrictions, *rest, **options)
        return spaces[key]

    kernel_tuner.interface.Searchspace = built
    kernel_tuner.util.read_cache = functools.cache(kernel_tuner.util.read_cache)


def search(path, cache, restrictions, strategy, budget, seed):
    """How the best time fell, and the number of evaluations."""
    random.seed(seed)
    np.random.seed(seed)
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results, _ = kernel_tuner.tune_cache(
            str(path), restrictions=restrictions, strategy=strategy,
            strategy_options={"max_fevals": budget}, quiet=True,
        )
    keys, trace, seen = cache["tune_params_keys"], [], set()
    for result in results:
        key = ",".join(str(result[it]) for it in keys)
        # Results from outside the recording were excluded by a restriction and not run.
        if key in seen or key not in cache["cache"]:
            continue
        seen.add(key)
        time = cache["cache"][key]["time"]
        if isinstance(time, (int, float)) and (not trace or time < trace[-1][1]):
            trace.append([len(seen), time])
    return trace, len(seen)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("spaces", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--budget", type=int, default=220)
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    arguments = parser.parse_args()
    recordings = sorted(it for it in arguments.spaces.glob("*.json.gz") if not it.name.endswith("_T4.json.gz"))
    share_what_is_read()
    with tempfile.TemporaryDirectory() as scratch, arguments.out.open("a") as out:
        spaces = []
        for recording in recordings:
            path, cache = strip(recording, pathlib.Path(scratch))
            kernel = recording.name.split("_")[0]
            restrictions = RESTRICTIONS[kernel]
            left = {
                ",".join(map(str, values)) for values in itertools.product(*cache["tune_params"].values())
                if all(eval(it, dict(zip(cache["tune_params_keys"], values))) for it in restrictions)
            }
            assert left == set(cache["cache"]), f"{recording.name}: the restrictions do not leave what was recorded"
            spaces.append((recording.name.removesuffix(".json.gz"), path, cache, restrictions))
        for strategy in arguments.strategies.split(","):
            for name, path, cache, restrictions in spaces:
                for seed in range(arguments.seeds):
                    trace, evaluations = search(path, cache, restrictions, strategy, arguments.budget, seed)
                    line = {"space": name, "strategy": strategy, "seed": seed,
                            "evaluations": evaluations, "trace": trace}
                    print(json.dumps(line, separators=(",", ":")), file=out, flush=True)


main()
