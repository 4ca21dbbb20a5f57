"""gatekeeper tune against kernel_tuner: the same space, the same seconds, the same GPU; then both winners by one rule.

    python3 dev/tuners/compare.py GATEKEEPER OUT [--seconds 30] [--strategies hybrid_vndx,adaptive_tabu_greywolf] [--seed 1]

For each of the searches below: `gatekeeper tune` with an empty cache for so many seconds, kernel_tuner by each strategy
for as many, then
`gatekeeper run --base` with kernel_tuner's winner as the base and gatekeeper's as head, timed interleaved in fresh
processes until its rule decides. Writes OUT/searches.jsonl and prints a table. Needs PyYAML, PyTorch, cuda-bindings and
kernel_tuner in python3.
"""

import argparse
import copy
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import yaml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SEARCHES = [("sdpa_f16", "mma", "mission"), ("sdpa_f16", "mma", "long"),
            ("sdpa_fp8", "stage4", "mission"), ("sdpa_fp8", "stage4", "long")]
SHARED = {"sdpa_f16": 100 * 1024, "sdpa_fp8": 48 * 1024}


def resolve(gates, kernel, variant):
    """The kernel with this variant alone, without what rests on other machines, days or programs."""
    kernel = copy.deepcopy(gates["kernels"][kernel])
    chosen = kernel["variants"][variant]
    chosen.pop("target", None)
    kernel.pop("rivals", None)
    kernel["variants"] = {variant: chosen}
    return kernel, chosen


def write_gates(folder, gates, name, kernel):
    head = {key: gates[key] for key in ("version", "toolchain", "flags", "timing")}
    whole = dict(head, architectures=["sm_90"], kernels={name: kernel})
    (folder / "gates.yaml").write_text(yaml.safe_dump(whole, sort_keys=False))


def search_with_gatekeeper(gatekeeper, folder, out, case, arguments):
    """The configuration that it would keep, and what it said."""
    name, variant, shape = case
    log = out / f"{name}-{variant}-{shape}.jsonl"
    with tempfile.TemporaryDirectory() as cache:  # of its own: kernel_tuner finds nothing built either
        ended = subprocess.run(
            [gatekeeper, "tune", f"{name}/{variant}", "--device", "cuda:0", "--budget", f"{arguments.seconds}s",
             "--seed", str(arguments.seed), "--log", log], cwd=folder, capture_output=True, text=True,
            env=os.environ | {"GATEKEEPER_CACHE": cache})
    (out / f"{log.stem}.txt").write_text(ended.stdout + ended.stderr)
    if not log.exists():
        return None, {"exit": ended.returncode}
    events = [json.loads(line) for line in log.read_text().splitlines()]
    evaluated = {it["number"]: it for it in events if it["event"] == "evaluated"}
    best = [it["number"] for it in events if it["event"] == "best"]
    values = evaluated[best[-1]]["values"] if best else None
    kinds = {}
    for it in evaluated.values():
        kinds[it["outcome"]["kind"]] = kinds.get(it["outcome"]["kind"], 0) + 1
    return values, {"tried": len(evaluated), "of": kinds, "exit": ended.returncode, "values": values,
                    "confirmed": next((it for it in events if it["event"] == "confirmed"), None)}


def search_with_kernel_tuner(kernel, chosen, case, strategy, arguments):
    name, _, shape = case
    variant = {"define": kernel["define"] | chosen["define"], "launch": kernel["launch"] | chosen.get("launch", {}),
               "tune": chosen["tune"]}
    asked = {"entry": name, "variant": variant, "shape": kernel["shapes"][shape], "shared": SHARED[name],
             "max_err": float(kernel["gates"]["max_err"][0]), "strategy": strategy,
             "seconds": arguments.seconds, "seed": arguments.seed}
    ended = subprocess.run([sys.executable, HERE / "kernel_tuner_search.py"], input=json.dumps(asked),
                           capture_output=True, text=True, cwd=tempfile.mkdtemp())
    try:
        return json.loads(ended.stdout.splitlines()[-1])
    except (IndexError, json.JSONDecodeError):
        return {"failed": (ended.stdout + ended.stderr)[-3000:]}


def judge(gatekeeper, gates, case, kernel, chosen, base, head):
    """p50 of head against that of base: the change and the bounds of the rule, or why there are none."""
    name, variant, shape = case
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        shutil.copytree(ROOT / "kernels", folder / "kernels")
        git = lambda *words: subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words], cwd=folder,
                                            check=True, capture_output=True)
        git("init", "-q")
        for values in (base, head):
            one = copy.deepcopy(kernel)
            own = one["variants"][variant]
            own.pop("tune")
            own.pop("gates", None)
            own["define"] = own["define"] | values
            one["shapes"] = {shape: one["shapes"][shape]}
            one["seeds"] = 1
            one["gates"] = {"max_err": one["gates"]["max_err"][0], "p50": "+0% of base"}
            write_gates(folder, gates, name, one)
            git("add", "-A")
            git("commit", "-q", "--allow-empty", "-m", "configuration")
        ended = subprocess.run([gatekeeper, "run", "--device", "cuda:0", "--base", "HEAD~1"], cwd=folder,
                               capture_output=True, text=True)
        report = folder / "gatekeeper-out" / "report.json"
        if not report.exists():
            return {"exit": ended.returncode, "said": (ended.stdout + ended.stderr)[-2000:]}
        verdicts = json.loads(report.read_text())["verdicts"]
        p50 = [it for it in verdicts if it.get("metric") == "p50"]
        return {"exit": ended.returncode, "p50": p50}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gatekeeper", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--strategies", default="hybrid_vndx,adaptive_tabu_greywolf")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    gatekeeper = arguments.gatekeeper.resolve()
    out = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    gates = yaml.safe_load((ROOT / "gates.yaml").read_text())
    with (out / "searches.jsonl").open("a") as lines:
        for case in SEARCHES:
            name, variant, shape = case
            kernel, chosen = resolve(gates, name, variant)
            chosen["tune"]["objective"] = f"p50 of {shape}"
            with tempfile.TemporaryDirectory() as folder:
                folder = pathlib.Path(folder)
                shutil.copytree(ROOT / "kernels", folder / "kernels")
                write_gates(folder, gates, name, kernel)
                ours, found = search_with_gatekeeper(gatekeeper, folder, out, case, arguments)
            macros = kernel["define"] | chosen["define"]
            start = {name: macros[name] for name in chosen["tune"]["parameters"] if name in macros}
            row = {"case": case, "seconds": arguments.seconds, "gatekeeper": found, "kernel_tuner": {}}
            for strategy in arguments.strategies.split(","):
                theirs = search_with_kernel_tuner(kernel, chosen, case, strategy, arguments)
                row["kernel_tuner"][strategy] = theirs
                best = theirs.get("best")
                if best:
                    theirs["confirmed"] = judge(gatekeeper, gates, case, kernel, chosen, best["values"], ours or start)
            print(json.dumps(row), file=lines, flush=True)
            print(json.dumps(row)[:1500], flush=True)


main()
