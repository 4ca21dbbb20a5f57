"""Builds the kernels of recorded spaces and writes what PTXAS says of each configuration: features for `replay`.

    python dev/replay/features.py SPACES RECORDING NVCC OUT.tsv --architectures 80,86 [--jobs 16] [--seconds 600] [--limit 10]

Needs no GPU. Resumes: configurations that OUT has already are not built again. They are built in a drawn order, so
that an unfinished file is a sample of the space. Each line of OUT: the configuration's key, architecture, registers,
shared bytes, spilled bytes (stores and loads). A configuration that does not build, or takes a compiler longer than
--limit seconds, has `-` for each: what takes so long is unrolled beyond all registers.

The recordings' convolution has a parameter that the published source lacks: use_shmem. With use_shmem=0 this script
reads the input where the source reads its tile of it, and leaves the tile out. That is a guess at the source that was
recorded. The header of dedispersion is missing too: its sizes are those of a public example with the same problem.
"""

import argparse
import concurrent.futures
import gzip
import json
import pathlib
import random
import re
import subprocess
import tempfile
import time

TILE = "sh_input[ty+yi*block_size_y+i][tx+xi*block_size_x+j]"
DIRECT = "LDG(input, (by+ty+yi*block_size_y+i)*input_width + (bx+tx+xi*block_size_x+j))"
DEDISPERSION = """
#define nr_dms 2048
#define nr_samples 25000
#define nr_channels 1536
#define max_shift 650
#define nr_samples_per_channel (nr_samples+max_shift)
#define dm_first 0.0f
#define dm_step 0.02f
"""


def read_source(spaces, kernel):
    """The source with shared memory, and the one without where there is such a parameter."""
    if kernel == "dedispersion_kernel":
        text = (spaces / "dedispersion.cu").read_text().replace('#include "dedispersion.h"', DEDISPERSION)
        return {None: text}
    # Only the kernel that was recorded.
    text = (spaces / "convolution_milo.cu").read_text().split("__global__ void convolution_naive")[0]
    assert TILE in text
    start, end = text.index("    //shared memory to hold"), text.index("    //thread-local registers")
    return {1: text, 0: (text[:start] + text[end:]).replace(TILE, DIRECT)}


def compile_with(command, folder, limit):
    """What the compiler said, or None if it failed or took too long."""
    try:
        said = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return None
    return said.stderr if said.returncode == 0 else None


def build(nvcc, text, config, architectures, scratch, limit):
    """PTXAS's words on each architecture. PTX is made once."""
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        folder = pathlib.Path(folder)
        (folder / "kernel.cu").write_text(text)
        defines = [f"-D{key}={value}" for key, value in config.items()]
        made = compile_with(
            [nvcc, "-std=c++17", "-O3", f"-arch=compute_{min(architectures)}", "-ptx", *defines,
             "kernel.cu", "-o", "kernel.ptx"], folder, limit)
        for architecture in architectures:
            row = ["-"] * 3
            if made is not None:
                said = compile_with(
                    [str(pathlib.Path(nvcc).with_name("ptxas")), f"-arch=sm_{architecture}", "-v", "kernel.ptx",
                     "-o", "kernel.cubin"], folder, limit)
                if said is not None:
                    def find(pattern):
                        found = re.search(pattern, said)
                        return int(found[1]) if found else 0
                    spills = find(r"(\d+) bytes spill stores") + find(r"(\d+) bytes spill loads")
                    row = [find(r"Used (\d+) registers"), find(r"(\d+) bytes smem"), spills]
            yield architecture, row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("spaces", type=pathlib.Path)
    parser.add_argument("recording")
    parser.add_argument("nvcc")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--architectures", default="80,86")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--limit", type=float, default=10)
    arguments = parser.parse_args()
    until = time.monotonic() + arguments.seconds
    cache = json.load(gzip.open(arguments.spaces / f"{arguments.recording}.json.gz"))
    sources = read_source(arguments.spaces, cache["kernel_name"])
    architectures = [int(it) for it in arguments.architectures.split(",")]
    done = set()
    if arguments.out.exists():
        done = {line.split("\t")[0] for line in arguments.out.read_text().splitlines()}
    keys = [it for it in cache["cache"] if it not in done]
    random.Random(0).shuffle(keys)

    def one(key):
        if time.monotonic() > until:
            return None
        line = cache["cache"][key]
        config = {name: line[name] for name in cache["tune_params_keys"]}
        rows = build(arguments.nvcc, sources[config.get("use_shmem")], config, architectures, scratch,
                     arguments.limit)
        return [[key, architecture, *row] for architecture, row in rows]

    with tempfile.TemporaryDirectory() as scratch, arguments.out.open("a") as out:
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            for rows in pool.map(one, keys):
                for row in rows or []:
                    print(*row, sep="\t", file=out, flush=True)


main()
