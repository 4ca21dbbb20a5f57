"""PyTorch's attention as a rival: its protocol is in docs/gates.md.

Reads what to do on stdin and writes GPU-only samples on stdout, of each backend of
scaled_dot_product_attention by name, in f16 whatever the kernel's own types are. A batched
sample is a replay of a CUDA graph of so many calls, between two events.
"""

import ctypes
import json
import os
import sys
import warnings

SCHEMA = "gatekeeper.rival/1"
# Longer graphs take long to make, and no sample is better for them.
MOST_CALLS = 2000
PILOT_CALLS = 16
# Clocks rise with load.
SETTLE_NS = 50e6
# A backend that errs by more than f16 explains is not timed: wrong is not fast.
MOST_ERROR = 1e-2
# Cycles that the GPU waits for the host before a sample: about 0.1 ms, and at most 25 ms.
FIRST_WAIT, LAST_WAIT = 200_000, 50_000_000


class Skip(Exception):
    """Why a backend or a task is not timed."""


class Clock:
    """GPU time between two events, without the host's own.

    The GPU spins until the host has handed it everything: a sample in which it got there
    first is taken again, behind a longer wait.
    """

    def __init__(self, torch):
        self.torch = torch
        self.wait = FIRST_WAIT

    def time(self, work):
        cuda = self.torch.cuda
        while True:
            start, end = (cuda.Event(enable_timing=True) for _ in range(2))
            cuda._sleep(self.wait)
            start.record()
            work()
            end.record()
            host_was_late = start.query()
            end.synchronize()
            if not host_was_late:
                return max(1, round(start.elapsed_time(end) * 1e6))
            if self.wait >= LAST_WAIT:
                raise Skip(
                    "the host is too slow to keep its own time out of the samples"
                )
            self.wait *= 2


def graph_of(torch, call, calls):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            call()
    return graph


def calls_for(each_ns, total_ns):
    return max(1, min(MOST_CALLS, -(-total_ns // max(1, each_ns))))


def sample(torch, call, sampling):
    """Samples of the kinds that a kernel's own have."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(max(3, sampling["warmup"])):
            call()
    torch.cuda.current_stream().wait_stream(stream)

    clock = Clock(torch)
    pilot = graph_of(torch, call, PILOT_CALLS)
    pilot.replay()
    each_ns = clock.time(pilot.replay) // PILOT_CALLS
    calls = calls_for(each_ns, sampling["batch_ns"])
    batch, single = graph_of(torch, call, calls), graph_of(torch, call, 1)
    for _ in range(int(SETTLE_NS // max(1, each_ns * calls)) + 1):
        batch.replay()
    batched_ns = [clock.time(batch.replay) for _ in range(sampling["iterations"])]
    single.replay()
    single_ns = [clock.time(single.replay) for _ in range(sampling["singles"])]
    return {
        "launches_per_sample": calls,
        "batched_ns": batched_ns,
        "single_ns": single_ns,
    }


def inputs(torch, task):
    """Queries, keys and values, and the keywords of the call."""
    reference = task["reference"]
    if list(reference) != ["sdpa"]:
        raise Skip("it does attention alone, and the reference is another")
    sdpa = reference["sdpa"]
    tensors = {tensor["name"]: tensor for tensor in task["tensors"]}
    generator = torch.Generator("cuda").manual_seed(1)

    def draw(name):
        tensor = tensors[name]
        dims, strides = tensor["dims"], tensor.get("strides")
        dense = torch.randn(
            dims, device="cuda", dtype=torch.float16, generator=generator
        )
        if strides is None:
            return dense
        strided = torch.empty_strided(dims, strides, device="cuda", dtype=torch.float16)
        return strided.copy_(dense)

    q, k, v = (draw(sdpa[name]) for name in ("q", "k", "v"))
    if sdpa["causal"] and q.shape[2] != k.shape[2]:
        raise Skip(
            "its causal mask starts at the first key, the reference's at the last"
        )
    keywords = {"is_causal": sdpa["causal"], "scale": sdpa["scale"]}
    if q.shape[1] != k.shape[1]:
        keywords["enable_gqa"] = True
    return q, k, v, keywords


def contest(torch, backends, name, task, sampling):
    from torch.nn.attention import sdpa_kernel

    attention = torch.nn.functional.scaled_dot_product_attention
    if name not in backends:
        raise Skip(f"there is no backend {name}; there are {', '.join(backends)}")
    q, k, v, keywords = inputs(torch, task)
    with torch.inference_mode(), sdpa_kernel(backends["math"]):
        right = attention(q.float(), k.float(), v.float(), **keywords)
    with torch.inference_mode(), sdpa_kernel(backends[name]):
        got = attention(q, k, v, **keywords)
        error = (got.float() - right).abs().max().item()
        if not error <= MOST_ERROR:
            raise Skip(
                f"it errs by {error:.3g} against PyTorch's own arithmetic in f32"
            )
        del right, got
        return sample(torch, lambda: attention(q, k, v, **keywords), sampling)


def why_not(error, said):
    """Why a backend cannot run: PyTorch warns of that before it raises its error.

    It also warns of every other backend, which is switched off here, and of each in two
    parts, the first of which only names it.
    """
    told = [str(it.message).split(" (Triggered internally")[0].strip() for it in said]
    own = [it for it in told if not it.endswith("because:") and "disabled" not in it]
    reasons = dict.fromkeys(it.split(". ")[0] for it in own)
    return "; ".join(reasons) or str(error).splitlines()[0]


def try_contest(torch, backends, name, task, sampling):
    """One backend's part of the answer."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            if sampling["mode"] != "warm":
                raise Skip("it is timed warm alone")
            return {
                "name": name,
                "timed": contest(torch, backends, name, task, sampling),
            }
        except Skip as why:
            return {"name": name, "skipped": str(why)}
        except (RuntimeError, TypeError) as error:
            return {"name": name, "skipped": why_not(error, said)}


def versions(torch):
    found = {
        "torch": torch.__version__,
        "cuda": str(torch.version.cuda),
        "cudnn": str(torch.backends.cudnn.version()),
    }
    number = ctypes.c_int()
    try:
        if ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(number)) == 0:
            found["driver"] = f"CUDA {number.value // 1000}.{number.value % 1000 // 10}"
    except OSError:
        pass
    return found


def answer(request):
    if request["schema"] != SCHEMA:
        sys.exit(f"it is asked by {request['schema']}, and knows {SCHEMA}")
    try:
        import torch
        from torch.nn.attention import SDPBackend
    except ImportError as error:
        return {"schema": SCHEMA, "skipped": f"PyTorch is not installed: {error}"}
    if not torch.cuda.is_available():
        return {"schema": SCHEMA, "skipped": "PyTorch finds no GPU that it can use"}
    names = {
        "flash": "FLASH_ATTENTION",
        "cudnn": "CUDNN_ATTENTION",
        "efficient": "EFFICIENT_ATTENTION",
        "math": "MATH",
    }
    backends = {
        name: getattr(SDPBackend, theirs)
        for name, theirs in names.items()
        if hasattr(SDPBackend, theirs)
    }
    tasks = []
    for task in request["tasks"]:
        answers = [
            try_contest(torch, backends, name, task, request["sampling"])
            for name in request["backends"]
        ]
        tasks.append({"id": task["id"], "backends": answers})
    return {"schema": SCHEMA, "versions": versions(torch), "tasks": tasks}


def main():
    # Libraries may print: the answer alone goes to stdout.
    with os.fdopen(os.dup(1), "w") as out:
        os.dup2(2, 1)
        json.dump(answer(json.load(sys.stdin)), out)


if __name__ == "__main__":
    main()
