import ctypes, struct, sys
cuda = ctypes.CDLL("libcuda.so.1")
image = ctypes.create_string_buffer(open("kernels.fatbin", "rb").read(), 1 << 20)
module, function = ctypes.c_void_p(), ctypes.c_void_p()
assert not cuda.cuModuleLoadData(ctypes.byref(module), image)
assert not cuda.cuModuleGetFunction(ctypes.byref(function), module, b"scale")


def allocated(count):
    pointer = ctypes.c_void_p()
    assert not cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(4 * count))
    host = (ctypes.c_float * count)(*range(count))
    assert not cuda.cuMemcpyHtoD_v2(pointer, host, ctypes.c_size_t(4 * count))
    return pointer


def launch(data, n, factor, out, grid):
    values = [ctypes.create_string_buffer(struct.pack("<Qq", data, n)), ctypes.c_float(factor), out]
    parameters = (ctypes.c_void_p * 3)(*map(ctypes.addressof, values))
    if "cooperative" in sys.argv:
        assert not cuda.cuLaunchCooperativeKernel(function, grid, 1, 1, 256, 1, 1, 0, None, parameters)
    else:
        assert not cuda.cuLaunchKernel(function, grid, 1, 1, 256, 1, 1, 0, None, parameters, None)


if "cooperative" in sys.argv:
    launch(0, 0, 3, allocated(64), 1)
else:
    for n, grid, factor in (1000, 4, 3), (500, 2, 3), (500, 2, 3), (1, 1, 3), (500, 2, 2.5), (2000, 8, 3), (300, 2, 3):
        launch(allocated(n).value, n, factor, allocated(n), grid)
