"""Copies by the driver, from Python: what a rival may do, but for PyTorch itself."""

import ctypes
import json
import subprocess
import sys
import threading

SCHEMA = "gatekeeper.rival/2"
CALLS = 16


def answer(message):
    print(json.dumps(message), flush=True)


begin = json.loads(sys.stdin.readline())
cuda = ctypes.CDLL("libcuda.so.1")


def check(code):
    if code:
        raise RuntimeError(f"the driver returns {code}")


check(cuda.cuInit(0))
device, context, x, y = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_uint64()
check(cuda.cuDeviceGet(ctypes.byref(device), 0))
check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
check(cuda.cuCtxSetCurrent(context))
for pointer in (x, y):
    check(cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(1 << 20)))
start, end = ctypes.c_void_p(), ctypes.c_void_p()
for event in (start, end):
    check(cuda.cuEventCreate(ctypes.byref(event), 0))
# Compilers of kernels start others, in sessions of their own.
subprocess.run(["true"], check=True, start_new_session=True)
threading.Thread(target=lambda: check(cuda.cuCtxSetCurrent(context))).start()


def time(calls):
    check(cuda.cuEventRecord(start, None))
    for _ in range(calls):
        check(cuda.cuMemcpyDtoDAsync_v2(y, x, ctypes.c_size_t(1 << 20), None))
    check(cuda.cuEventRecord(end, None))
    check(cuda.cuEventSynchronize(end))
    took = ctypes.c_float()
    check(cuda.cuEventElapsedTime(ctypes.byref(took), start, end))
    return max(1, round(took.value * 1e6))


answer({"schema": SCHEMA, "versions": {"driver": "1"}})
sampling = begin["sampling"]
for line in sys.stdin:
    task = json.loads(line)
    timed = {
        "launches_per_sample": CALLS,
        "batched_ns": [time(CALLS) for _ in range(sampling["iterations"])],
        "single_ns": [time(1) for _ in range(sampling["singles"])],
    }
    answer({"id": task["id"], "backends": [{"name": name, "timed": timed} for name in task["backends"]]})
