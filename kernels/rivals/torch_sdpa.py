"""PyTorch's attention as a rival: its protocol is in docs/gates.md.

Reads what to do on stdin and writes GPU-only samples on stdout, of each backend of
scaled_dot_product_attention by name, in f16 whatever the kernel's own types are. A batched
sample is a replay of a CUDA graph of so many calls, between two events.

PyTorch is loaded before the first message is read, and without the GPU: other kernels may
be timed on it until then.
"""

import ctypes
import gc
import json
import os
import sys
import time
import warnings

SCHEMA = "gatekeeper.rival/2"
# Longer graphs take long to make, and no sample is better for them.
MOST_CALLS = 2000
PILOT_CALLS = 16
# Clocks rise with load: before the first samples of a process, and of each call.
FIRST_SETTLE_NS, SETTLE_NS = 50e6, 10e6
# A backend that errs by more than f16 explains is not timed: wrong is not fast.
MOST_ERROR = 1e-2
# Samples that the host hands to the GPU at once.
AT_ONCE = 20
# Cycles that the GPU waits for the host before them: about 0.1 ms, and at most 25 ms.
FIRST_WAIT, LAST_WAIT = 200_000, 50_000_000
# The clock of the fastest GPU, and half as much again to spare.
CYCLES_PER_SECOND = 3e9


class Skip(Exception):
    """Why a backend or a task is not timed."""


class Clock:
    """GPU time between two events, without the host's own.

    The GPU spins until the host has handed it everything: samples at which it got there
    first are taken again, behind a wait as long as the host took.
    """

    def __init__(self, torch):
        self.cuda = torch.cuda
        self.settle_ns = FIRST_SETTLE_NS
        event = self.cuda.Event
        self.events = [
            (event(enable_timing=True), event(enable_timing=True))
            for _ in range(AT_ONCE)
        ]
        # An event is made when it is first recorded, which takes the host a while.
        for pair in self.events:
            for event in pair:
                event.record()
        self.cuda.synchronize()

    def times(self, work, count):
        # A short wait for each kind of work: most of the time would go into those of the longest.
        taken, wait = [], FIRST_WAIT
        while len(taken) < count:
            events = self.events[: count - len(taken)]
            self.cuda._sleep(wait)
            began = time.perf_counter()
            for start, end in events:
                start.record()
                work()
                end.record()
            host_s = time.perf_counter() - began
            host_was_late = events[0][0].query()
            self.cuda.synchronize()
            if not host_was_late:
                taken += [max(1, round(a.elapsed_time(b) * 1e6)) for a, b in events]
            elif wait < LAST_WAIT:
                needed = max(wait * 3 // 2, round(host_s * CYCLES_PER_SECOND))
                wait = min(LAST_WAIT, needed)
            else:
                raise Skip(
                    "the host is too slow to keep its own time out of the samples"
                )
        return taken

    def settle(self, work, each_ns):
        for _ in range(int(self.settle_ns // max(1, each_ns)) + 1):
            work()
        self.settle_ns = SETTLE_NS


def graph_of(torch, call, calls):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            call()
    return graph


def calls_for(each_ns, total_ns):
    return max(1, min(MOST_CALLS, -(-total_ns // max(1, each_ns))))


def sample(torch, clock, call, sampling):
    """Samples of the kinds that a kernel's own have."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(max(3, sampling["warmup"])):
            call()
    torch.cuda.current_stream().wait_stream(stream)

    pilot = graph_of(torch, call, PILOT_CALLS)
    pilot.replay()
    each_ns = clock.times(pilot.replay, 1)[0] // PILOT_CALLS
    calls = calls_for(each_ns, sampling["batch_ns"])
    batch, single = graph_of(torch, call, calls), graph_of(torch, call, 1)
    single.replay()
    clock.settle(batch.replay, each_ns * calls)
    return {
        "launches_per_sample": calls,
        "batched_ns": clock.times(batch.replay, sampling["iterations"]),
        "single_ns": clock.times(single.replay, sampling["singles"]),
    }


def call_of(task):
    """The call as JSON: tasks of several kernels can be the same call."""
    reference = task["reference"]
    if list(reference) != ["sdpa"]:
        raise Skip("it does attention alone, and the reference is another")
    sdpa = reference["sdpa"]
    tensors = {tensor["name"]: tensor for tensor in task["tensors"]}

    def place(name):
        return [tensors[name]["dims"], tensors[name].get("strides")]

    return json.dumps(
        [*(place(sdpa[name]) for name in "qkv"), sdpa["causal"], sdpa["scale"]]
    )


def inputs(torch, call):
    """Queries, keys and values, and the keywords of the call."""
    *places, causal, scale = json.loads(call)
    generator = torch.Generator("cuda").manual_seed(1)

    def draw(dims, strides):
        dense = torch.randn(
            dims, device="cuda", dtype=torch.float16, generator=generator
        )
        if strides is None:
            return dense
        strided = torch.empty_strided(dims, strides, device="cuda", dtype=torch.float16)
        return strided.copy_(dense)

    q, k, v = (draw(*place) for place in places)
    if causal and q.shape[2] != k.shape[2]:
        raise Skip(
            "its causal mask starts at the first key, the reference's at the last"
        )
    keywords = {"is_causal": causal, "scale": scale}
    if q.shape[1] != k.shape[1]:
        keywords["enable_gqa"] = True
    return q, k, v, keywords


def contest(torch, backends, clock, name, call, sampling):
    from torch.nn.attention import sdpa_kernel

    attention = torch.nn.functional.scaled_dot_product_attention
    if name not in backends:
        raise Skip(f"there is no backend {name}; there are {', '.join(backends)}")
    q, k, v, keywords = inputs(torch, call)
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
        return sample(
            torch, clock, lambda: attention(q, k, v, **keywords), sampling
        )


def why_not(error, said):
    """Why a backend cannot run: PyTorch warns of that before it raises its error.

    It also warns of every other backend, which is switched off here, and of each in two
    parts, the first of which only names it.
    """
    told = [str(it.message).split(" (Triggered internally")[0].strip() for it in said]
    own = [it for it in told if not it.endswith("because:") and "disabled" not in it]
    reasons = dict.fromkeys(it.split(". ")[0] for it in own)
    return "; ".join(reasons) or str(error).splitlines()[0]


def try_contest(torch, backends, clock, name, task, sampling, known):
    """One backend's part of an answer. `known` has those of calls that were made before."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            if sampling["mode"] != "warm":
                raise Skip("it is timed warm alone")
            call = call_of(task)
            if (call, name) not in known:
                known[call, name] = contest(
                    torch, backends, clock, name, call, sampling
                )
            return {"name": name, "timed": known[call, name]}
        except Skip as why:
            return {"name": name, "skipped": str(why)}
        except (RuntimeError, TypeError) as error:
            # A context that is broken stays so: this ends the process, and the task with it.
            torch.cuda.synchronize()
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


def load():
    """PyTorch, or why there is none."""
    try:
        import torch
        import torch.nn.attention
    except ImportError as error:
        return None, f"PyTorch is not installed: {error}"
    # All that is loaded stays: a collection need not look at it again.
    gc.collect()
    gc.freeze()
    return torch, None


def backends_of(torch):
    theirs = torch.nn.attention.SDPBackend
    names = {
        "flash": "FLASH_ATTENTION",
        "cudnn": "CUDNN_ATTENTION",
        "efficient": "EFFICIENT_ATTENTION",
        "math": "MATH",
    }
    return {
        name: getattr(theirs, its)
        for name, its in names.items()
        if hasattr(theirs, its)
    }


def take_turn(torch, why, messages, say):
    begin = next(messages, None)
    if begin is None:
        return
    if begin["schema"] != SCHEMA:
        sys.exit(f"it is asked by {begin['schema']}, and knows {SCHEMA}")
    if torch is not None and not torch.cuda.is_available():
        torch, why = None, "PyTorch finds no GPU that it can use"
    if torch is None:
        say({"schema": SCHEMA, "skipped": why})
        return
    say({"schema": SCHEMA, "versions": versions(torch)})
    backends, clock, known = backends_of(torch), Clock(torch), {}
    for task in messages:
        answers = [
            try_contest(torch, backends, clock, name, task, begin["sampling"], known)
            for name in task["backends"]
        ]
        say({"id": task["id"], "backends": answers})


def main():
    # Libraries may print: the answers alone go to stdout.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(answer):
        out.write(json.dumps(answer) + "\n")
        out.flush()

    torch, why = load()
    take_turn(torch, why, map(json.loads, sys.stdin), say)
    # The system takes down what PyTorch would take apart.
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
