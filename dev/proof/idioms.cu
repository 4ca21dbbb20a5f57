// Launches one kernel of crates/ptxsim/tests/fixtures/{right,faulty}.cu as tests/launches/idioms.rs does, for
// compute-sanitizer to watch: idioms CUBIN NAME BLOCKS THREADS N. Exit code 0 where the launch came to its end.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <vector>

constexpr int WORDS = 4096;

static void check(cudaError_t error, const char* what)
{
    if (error == cudaSuccess) return;
    std::printf("%s: %s\n", what, cudaGetErrorString(error));
    std::exit(1);
}

int main(int argc, char** argv)
{
    if (argc != 6) return 2;
    std::vector<int> small(WORDS);
    for (int i = 0; i < WORDS; ++i) small[i] = i * 37 % 101;
    // Each of its own size on the device, so that the tools see its end.
    int *x, *y, *z, n = std::atoi(argv[5]);
    check(cudaMalloc(&x, WORDS * sizeof(int)), "x");
    check(cudaMalloc(&y, WORDS * sizeof(int)), "y");  // without a value
    check(cudaMalloc(&z, WORDS * sizeof(int)), "z");
    check(cudaMemcpy(x, small.data(), WORDS * sizeof(int), cudaMemcpyHostToDevice), "x");
    check(cudaMemset(z, 0, WORDS * sizeof(int)), "z");

    cudaLibrary_t library;
    check(cudaLibraryLoadFromFile(&library, argv[1], nullptr, nullptr, 0, nullptr, nullptr, 0), argv[1]);
    cudaKernel_t kernel;
    check(cudaLibraryGetKernel(&kernel, library, argv[2]), argv[2]);
    void* args[] = {&x, &y, &z, &n};
    check(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(std::atoi(argv[3])), dim3(std::atoi(argv[4])), args,
                           0, nullptr), "launch");
    check(cudaDeviceSynchronize(), "kernel");
    std::vector<int> out(WORDS);
    check(cudaMemcpy(out.data(), z, WORDS * sizeof(int), cudaMemcpyDeviceToHost), "z");
    return 0;
}
