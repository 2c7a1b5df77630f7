// Heat flows through a block of material: explicit steps of a 7-point stencil, until the time is up or nothing changes.
//
//   story_cuda [STEPS]     100 steps on 384 × 384 × 256 points; every tenth step asks for the largest change
//
// A small block is computed on the processor, too, and must come out the same. The exit code is 1 where it does not,
// 2 where CUDA fails. The start is computed from indices, so that every run does the same.

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#define MUST(call)                                                                      \
    do {                                                                                \
        cudaError_t code = (call);                                                      \
        if (code != cudaSuccess) {                                                      \
            std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(code));          \
            std::exit(2);                                                               \
        }                                                                               \
    } while (0)

struct Block {
    int nx, ny, nz;
    size_t count() const { return static_cast<size_t>(nx) * ny * nz; }
};

__global__ void diffuse(const float* now, float* next, Block of, float rate) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x < 1 || y < 1 || z < 1 || x >= of.nx - 1 || y >= of.ny - 1 || z >= of.nz - 1) return;
    size_t at = (static_cast<size_t>(x) * of.ny + y) * of.nz + z;
    size_t row = of.nz, plane = static_cast<size_t>(of.ny) * of.nz;
    float around = now[at - 1] + now[at + 1] + now[at - row] + now[at + row] + now[at - plane] + now[at + plane];
    next[at] = now[at] + rate * (around - 6.0 * now[at]);
}

__global__ void change(const float* now, const float* next, size_t count, unsigned* largest) {
    size_t at = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at < count) atomicMax(largest, __float_as_uint(fabsf(next[at] - now[at])));  // ordered as the numbers are
}

static std::vector<float> start(Block of) {
    std::vector<float> heat(of.count());
    for (int x = 0; x < of.nx; x++) {
        for (int y = 0; y < of.ny; y++) {
            for (int z = 0; z < of.nz; z++) {
                heat[(static_cast<size_t>(x) * of.ny + y) * of.nz + z] = static_cast<float>((x * 7 + y * 5 + z * 3) % 64);
            }
        }
    }
    return heat;
}

struct Result {
    std::vector<float> heat;
    float change, milliseconds;
};

static Result on_gpu(Block of, int steps, float rate) {
    std::vector<float> heat = start(of);
    size_t bytes = of.count() * sizeof(float);
    float *now = nullptr, *next = nullptr, largest = 0.0f, milliseconds = 0.0f;
    unsigned* changed = nullptr;
    MUST(cudaMalloc(&now, bytes));
    MUST(cudaMalloc(&next, bytes));
    MUST(cudaMalloc(&changed, sizeof(unsigned)));
    MUST(cudaMemcpy(now, heat.data(), bytes, cudaMemcpyHostToDevice));
    MUST(cudaMemcpy(next, heat.data(), bytes, cudaMemcpyHostToDevice));
    cudaEvent_t begin, end;
    MUST(cudaEventCreate(&begin));
    MUST(cudaEventCreate(&end));
    dim3 threads(8, 8, 8);
    dim3 blocks((of.nx + 7) / 8, (of.ny + 7) / 8, (of.nz + 7) / 8);
    MUST(cudaEventRecord(begin));
    for (int step = 1; step <= steps; step++) {
        diffuse<<<blocks, threads>>>(now, next, of, rate);
        if (step % 10 == 0) {
            MUST(cudaMemset(changed, 0, sizeof(unsigned)));
            change<<<static_cast<unsigned>((of.count() + 255) / 256), 256>>>(now, next, of.count(), changed);
            MUST(cudaMemcpy(&largest, changed, sizeof(float), cudaMemcpyDeviceToHost));
        }
        std::swap(now, next);
        if (step % 10 == 0 && largest < 1e-6f) break;
    }
    MUST(cudaEventRecord(end));
    MUST(cudaGetLastError());
    MUST(cudaEventSynchronize(end));
    MUST(cudaEventElapsedTime(&milliseconds, begin, end));
    MUST(cudaMemcpy(heat.data(), now, bytes, cudaMemcpyDeviceToHost));
    MUST(cudaFree(now));
    MUST(cudaFree(next));
    MUST(cudaFree(changed));
    return {heat, largest, milliseconds};
}

static std::vector<float> on_processor(Block of, int steps, float rate) {
    std::vector<float> now = start(of), next = now;
    size_t row = of.nz, plane = static_cast<size_t>(of.ny) * of.nz;
    for (int step = 0; step < steps; step++) {
        for (int x = 1; x < of.nx - 1; x++) {
            for (int y = 1; y < of.ny - 1; y++) {
                for (int z = 1; z < of.nz - 1; z++) {
                    size_t at = (static_cast<size_t>(x) * of.ny + y) * of.nz + z;
                    double around = static_cast<double>(now[at - 1]) + now[at + 1] + now[at - row] + now[at + row] +
                                    now[at - plane] + now[at + plane];
                    next[at] = static_cast<float>(now[at] + rate * (around - 6.0 * now[at]));
                }
            }
        }
        std::swap(now, next);
    }
    return now;
}

int main(int count, char** words) {
    int steps = count > 1 ? std::atoi(words[1]) : 100;
    const float rate = 0.1f;
    const Block small = {20, 36, 28}, large = {384, 384, 256};
    std::vector<float> wanted = on_processor(small, 10, rate), found = on_gpu(small, 10, rate).heat;
    bool right = true;
    for (size_t at = 0; at < wanted.size(); at++) right = right && std::fabs(found[at] - wanted[at]) < 1e-3f;
    Result done = on_gpu(large, steps, rate);
    double sum = 0.0;
    for (float one : done.heat) sum += one;
    std::printf("heat: %d steps, checksum %.1f, last change %.6f, %.3f ms on the GPU: %s\n", steps, sum, done.change,
                done.milliseconds, right ? "right" : "WRONG");
    return right ? 0 : 1;
}
