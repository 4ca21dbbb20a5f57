// Runs launches that `KEEP_LAUNCHES=directory cargo test --test launches` wrote: launcher DIRECTORY NAME... A module is
// taken from DIRECTORY/module.cubin. For each launch a line: its name, and `right`, `wrong`, `nothing wanted`, `did not
// end` or the driver's error. Exit code 3 where one does not end within 5 seconds: nothing more can be done then.
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <cuda_fp16.h>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

static std::string directory, launch;

static void report(const std::string& outcome)
{
    std::printf("%s\t%s\n", launch.c_str(), outcome.c_str());
    std::fflush(stdout);
}

static void check(CUresult result, const char* what)
{
    if (result == CUDA_SUCCESS) return;
    const char* name = nullptr;
    cuGetErrorName(result, &name);
    report(std::string(what) + ": " + (name ? name : "?"));
    _exit(1);
}

static std::vector<char> read(const std::string& name)
{
    std::ifstream file(directory + "/" + name, std::ios::binary);
    std::vector<char> all((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (!all.empty()) return all;
    std::fprintf(stderr, "no %s\n", name.c_str());
    _exit(2);
}

struct Buffer {
    uint64_t bytes;
    CUdeviceptr here;
};
static std::map<uint64_t, Buffer> buffers;  // by their address in the simulator

static CUdeviceptr relocate(uint64_t address)
{
    auto after = buffers.upper_bound(address);
    if (after == buffers.begin()) _exit(2);
    --after;
    return after->second.here + (address - after->first);
}

static CUtensorMap encode(std::istringstream& line, uint64_t address)
{
    static const std::map<std::string, CUtensorMapDataType> types = {
        {"U8", CU_TENSOR_MAP_DATA_TYPE_UINT8}, {"U16", CU_TENSOR_MAP_DATA_TYPE_UINT16},
        {"U32", CU_TENSOR_MAP_DATA_TYPE_UINT32}, {"I32", CU_TENSOR_MAP_DATA_TYPE_INT32},
        {"U64", CU_TENSOR_MAP_DATA_TYPE_UINT64}, {"I64", CU_TENSOR_MAP_DATA_TYPE_INT64},
        {"F16", CU_TENSOR_MAP_DATA_TYPE_FLOAT16}, {"F32", CU_TENSOR_MAP_DATA_TYPE_FLOAT32},
        {"F64", CU_TENSOR_MAP_DATA_TYPE_FLOAT64}, {"Bf16", CU_TENSOR_MAP_DATA_TYPE_BFLOAT16},
        {"Tf32", CU_TENSOR_MAP_DATA_TYPE_TFLOAT32}};
    static const std::map<std::string, CUtensorMapSwizzle> swizzles = {
        {"None", CU_TENSOR_MAP_SWIZZLE_NONE}, {"Bytes32", CU_TENSOR_MAP_SWIZZLE_32B},
        {"Bytes64", CU_TENSOR_MAP_SWIZZLE_64B}, {"Bytes128", CU_TENSOR_MAP_SWIZZLE_128B}};
    std::string type, swizzle;
    int fills_nan, rank;
    line >> type >> swizzle >> fills_nan >> rank;
    cuuint64_t extents[5], strides[5];
    cuuint32_t box[5], steps[5];
    for (int i = 0; i < rank; i++) line >> extents[i];
    for (int i = 0; i + 1 < rank; i++) line >> strides[i];
    auto fill = fills_nan ? CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA : CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
    CUtensorMap map;
    std::string mode;
    // For a map of `.im2col`, its corners, channels and pixels stand for the box.
    std::streampos at = line.tellg();
    if (line >> mode && mode == "im2col") {
        int lower[3], upper[3], channels, pixels;
        for (int i = 0; i + 2 < rank; i++) line >> lower[i];
        for (int i = 0; i + 2 < rank; i++) line >> upper[i];
        line >> channels >> pixels;
        for (int i = 0; i < rank; i++) line >> steps[i];
        check(cuTensorMapEncodeIm2col(&map, types.at(type), rank, (void*)relocate(address), extents, strides, lower, upper,
                                      channels, pixels, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzles.at(swizzle),
                                      CU_TENSOR_MAP_L2_PROMOTION_NONE, fill), "cuTensorMapEncodeIm2col");
        return map;
    }
    line.clear();
    line.seekg(at);
    for (int i = 0; i < rank; i++) line >> box[i];
    for (int i = 0; i < rank; i++) line >> steps[i];
    check(cuTensorMapEncodeTiled(&map, types.at(type), rank, (void*)relocate(address), extents, strides, box, steps,
                                 CU_TENSOR_MAP_INTERLEAVE_NONE, swizzles.at(swizzle), CU_TENSOR_MAP_L2_PROMOTION_NONE, fill),
          "cuTensorMapEncodeTiled");
    return map;
}

// Bytes or elements that differ, and the place of the first.
static std::pair<size_t, size_t> differences(const std::string& compared, const char* got, const char* want, size_t bytes)
{
    size_t each = compared == "F32" ? 4 : compared == "F16" ? 2 : 1, count = 0, first = 0;
    for (size_t i = 0; i + each <= bytes; i += each) {
        float a = got[i], b = want[i];
        if (each == 4) {
            std::memcpy(&a, got + i, 4);
            std::memcpy(&b, want + i, 4);
        } else if (each == 2) {
            __half x, y;
            std::memcpy(&x, got + i, 2);
            std::memcpy(&y, want + i, 2);
            a = __half2float(x), b = __half2float(y);
        }
        if (each == 1 ? a == b : std::fabs(a - b) <= 4e-3f) continue;
        if (count++ == 0) first = i;
    }
    return {count, first};
}

struct Wanted {
    uint64_t at, bytes, from;
    std::string compared;
};

static void run()
{
    std::ifstream file(directory + "/" + launch + ".launch");
    std::vector<char> data = read(launch + ".bin");
    std::string text, word, entry;
    CUlaunchConfig config = {};
    CUmodule module;
    CUfunction kernel;
    CUlaunchAttribute attribute = {};
    unsigned cluster[3] = {};
    alignas(128) static char parameters[4096];
    std::vector<void*> arguments;
    std::vector<Wanted> wanted;
    buffers.clear();
    while (std::getline(file, text)) {
        std::istringstream line(text);
        line >> word;
        if (word == "module") {
            line >> word;
            check(cuModuleLoadData(&module, read(word + ".cubin").data()), "cuModuleLoadData");
        } else if (word == "entry") {
            line >> entry;
            check(cuModuleGetFunction(&kernel, module, entry.c_str()), "cuModuleGetFunction");
        } else if (word == "grid") {
            line >> config.gridDimX >> config.gridDimY >> config.gridDimZ;
        } else if (word == "block") {
            line >> config.blockDimX >> config.blockDimY >> config.blockDimZ;
        } else if (word == "cluster") {
            line >> cluster[0] >> cluster[1] >> cluster[2];
        } else if (word == "shared") {
            line >> config.sharedMemBytes;
        } else if (word == "buffer") {
            uint64_t address, bytes;
            int64_t from;
            line >> address >> bytes >> from;
            Buffer buffer = {bytes, 0};
            check(cuMemAlloc(&buffer.here, bytes), "cuMemAlloc");
            if (from >= 0) check(cuMemcpyHtoD(buffer.here, data.data() + from, bytes), "cuMemcpyHtoD");
            buffers[address] = buffer;
        } else if (word == "pointer") {
            uint64_t at, address;
            line >> at >> address;
            CUdeviceptr here = relocate(address);
            std::memcpy(&parameters[at], &here, 8);
            arguments.push_back(&parameters[at]);
        } else if (word == "map") {
            uint64_t at, address;
            line >> at >> address;
            CUtensorMap map = encode(line, address);
            std::memcpy(&parameters[at], &map, sizeof map);
            arguments.push_back(&parameters[at]);
        } else if (word == "value") {
            uint64_t at, bytes;
            line >> at >> bytes >> text;
            arguments.push_back(&parameters[at]);
            for (uint64_t i = 0; i < bytes; i++) parameters[at + i] = (char)std::stoi(text.substr(2 * i, 2), nullptr, 16);
        } else if (word == "want") {
            Wanted it;
            line >> it.at >> it.bytes >> it.compared >> it.from;
            wanted.push_back(it);
        }
    }
    if (config.sharedMemBytes > 48 << 10)
        check(cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, config.sharedMemBytes), "shared memory");
    if (cluster[0]) {
        if (cluster[0] * cluster[1] * cluster[2] > 8)
            check(cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1), "cluster");
        attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        attribute.value.clusterDim = {cluster[0], cluster[1], cluster[2]};
        config.attrs = &attribute;
        config.numAttrs = 1;
    }
    CUresult launched = cuLaunchKernelEx(&config, kernel, arguments.data(), nullptr);
    if (launched != CUDA_SUCCESS) {
        const char* name = nullptr;
        cuGetErrorName(launched, &name);
        return report(std::string("launch: ") + (name ? name : "?"));
    }
    auto start = std::chrono::steady_clock::now();
    CUresult state;
    while ((state = cuStreamQuery(nullptr)) == CUDA_ERROR_NOT_READY) {
        if (std::chrono::steady_clock::now() - start > std::chrono::seconds(5)) {
            report("did not end");
            _exit(3);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    check(state, "kernel");
    std::string outcome = wanted.empty() ? "nothing wanted" : "right";
    for (const Wanted& it : wanted) {
        std::vector<char> got(it.bytes);
        check(cuMemcpyDtoH(got.data(), relocate(it.at), it.bytes), "cuMemcpyDtoH");
        auto [count, first] = differences(it.compared, got.data(), data.data() + it.from, it.bytes);
        if (count == 0) continue;
        char detail[200];
        std::snprintf(detail, sizeof detail, "wrong, %zu of %zu bytes from %zu: %02x in place of %02x", count, (size_t)it.bytes,
                      first, got[first] & 0xff, data[it.from + first] & 0xff);
        outcome = detail;
    }
    report(outcome);
    for (auto& [address, buffer] : buffers) check(cuMemFree(buffer.here), "cuMemFree");
    check(cuModuleUnload(module), "cuModuleUnload");
}

int main(int argc, char** argv)
{
    if (argc < 3) return 2;
    directory = argv[1];
    CUdevice device;
    CUcontext context;
    check(cuInit(0), "cuInit");
    check(cuDeviceGet(&device, 0), "cuDeviceGet");
    check(cuDevicePrimaryCtxRetain(&context, device), "context");
    check(cuCtxSetCurrent(context), "context");
    for (int i = 2; i < argc; i++) {
        launch = argv[i];
        run();
    }
    return 0;
}
