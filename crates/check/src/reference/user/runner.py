"""Imports a reference from its file and lists what it is made of (`probe`), or calls it once (`call`).

It runs as `python3 -I -B` in the confined process of python.rs, which also describes the arguments. Exit code 3 is a
mistake of the reference, and 4 something that this Python lacks.
"""

import json
import linecache
import os
import sys
import traceback
import types

REFERENCE, PYTHON = 3, 4

# Sums by several threads depend on how many cores there are.
for threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[threads] = "1"


def stop(code, message):
    print(message, file=sys.stderr)
    sys.exit(code)


def find_numpy():
    if sys.version_info < (3, 10):
        stop(PYTHON, f"{sys.executable} is Python {sys.version.split()[0]}, and a reference needs 3.10 or newer")
    try:
        import numpy
    except ImportError as error:
        stop(PYTHON, f"{sys.executable} has no NumPy ({error}): install it there, or put another python3 first on PATH")
    return numpy


def run_own(code, what):
    """Runs the user's code. Its errors are shown without the lines of this file."""
    try:
        return code()
    except ModuleNotFoundError as error:
        hint = f"\na reference is one file: besides, it can import what {sys.executable} has installed"
        stop(REFERENCE, what + said_by(error) + hint)
    except Exception as error:
        stop(REFERENCE, what + said_by(error))


def said_by(error):
    frames = error.__traceback__
    while frames and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    return ":\n" + "".join(traceback.format_exception(type(error), error, frames)).rstrip()


def load(copy, name, function):
    with open(copy, encoding="utf-8") as file:
        source = file.read()
    # The file itself may be hidden from this process.
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    module = types.ModuleType("reference")
    module.__file__ = name
    sys.modules[module.__name__] = module
    run_own(lambda: exec(compile(source, name, "exec"), module.__dict__), "its import fails")
    found = getattr(module, function, None)
    if not callable(found):
        stop(REFERENCE, f"it has no function `{function}`")
    return found


def packages():
    """Those that are installed. The standard library has one module more than it lists, with the platform in its name."""
    imported = {name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names
    return {name for name in imported if not name.startswith("_sysconfigdata_")}


def list_files(listing):
    files = {sys.executable, os.path.join(sys.prefix, "pyvenv.cfg")}
    files.update(getattr(module, "__file__", None) or "" for module in list(sys.modules.values()))
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        files.update(line.rstrip("\n").split(maxsplit=5)[5] for line in maps if "/" in line)
    there = sorted(file for file in files if os.path.isabs(file) and os.path.isfile(file) and file != __file__)
    with open(listing, "w", encoding="utf-8") as out:
        json.dump(there, out)


def take(numpy, file, described):
    """An argument of the function."""
    data = file.read(int.from_bytes(file.read(8), "little"))
    if described["kind"] == "null":
        return None
    values = numpy.frombuffer(bytearray(data), dtype=described["type"])
    return values[0].item() if described["kind"] == "scalar" else values.reshape(described["shape"])


def put(numpy, file, value, described):
    """An output as the kernel's tensor has it. Floats may be wider, and integers of any size that fits."""
    name, wanted = described["name"], numpy.dtype(described["type"])
    array = numpy.asarray(value)
    kinds = {"f": "f", "i": "iu", "u": "iu"}[wanted.kind]
    if array.dtype.kind not in kinds:
        stop(REFERENCE, f"it returns {array.dtype} for `{name}`, which holds {'floats' if kinds == 'f' else 'integers'}")
    if list(array.shape) != described["shape"]:
        stop(REFERENCE, f"it returns shape {list(array.shape)} for `{name}`, which has {described['shape']}")
    if kinds != "f" and array.size:
        low, high = numpy.iinfo(wanted).min, numpy.iinfo(wanted).max
        if int(array.min()) < low or int(array.max()) > high:
            stop(REFERENCE, f"it returns values from {array.min()} to {array.max()} for `{name}`, which holds {wanted}")
    with numpy.errstate(all="ignore"):
        file.write(numpy.ascontiguousarray(array, dtype=wanted).tobytes())


def call(numpy, function, given, answer, described):
    with open(given, "rb") as file:
        arguments = [(take(numpy, file, each), each) for each in described]
    before = packages()
    returned = run_own(lambda: function(*[value for value, each in arguments if each["given"]]), "it fails")
    late = packages() - before
    if late:
        stop(REFERENCE, f"it imports {', '.join(sorted(late))} as it is called: import that at the top of the file, since"
             " answers are kept by what a reference is made of")
    outputs = [each for each in described if each["returned"]]
    names = ", ".join(f"`{each['name']}`" for each in outputs)
    if returned is None:
        stop(REFERENCE, f"it returns nothing, where {names} should be")
    values = returned if isinstance(returned, tuple) else (returned,)
    if len(values) != len(outputs):
        stop(REFERENCE, f"it returns {len(values)} values for {len(outputs)} outputs, {names}")
    with open(answer, "wb") as file:
        for value, each in zip(values, outputs):
            put(numpy, file, value, each)


def main(mode, copy, name, function, *rest):
    numpy = find_numpy()
    found = load(copy, name, function)
    if mode == "probe":
        list_files(*rest)
    else:
        given, answer, described = rest
        call(numpy, found, given, answer, json.loads(described))


main(*sys.argv[1:])
