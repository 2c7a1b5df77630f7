// What `gpuprof demo --run` profiles: five small kernels, four of them with a fault that a profiler should name.
//
//   saxpy             streams through memory and is as fast as DRAM: nothing to repair
//   transpose_naive   writes down columns: each warp touches 32 lines of memory
//   transpose_tiled   goes through shared memory, with a tile whose columns fall into one bank
//   histogram         counts into 16 bins of global memory, so that all threads meet at the same addresses
//   gemm_naive        one thread an element and no reuse but what the caches give
//
// The results are checked on the host, of the GEMM every 4099th. Exit code 0: all right; 1: a wrong result; 2: an error of CUDA.

#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                                        \
    do {                                                                                                   \
        cudaError_t status = (call);                                                                       \
        if (status != cudaSuccess) {                                                                       \
            std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(status)); \
            std::exit(2);                                                                                  \
        }                                                                                                  \
    } while (0)

constexpr int SIDE = 4096;
constexpr int CELLS = SIDE * SIDE;
constexpr int GEMM_SIDE = 1024;
constexpr int TILE = 32;
constexpr int ROWS = 8;
constexpr int BINS = 16;
constexpr int ROUNDS = 3;

__global__ void saxpy(int n, float a, const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}

__global__ void transpose_naive(const float *in, float *out) {
    int x = blockIdx.x * TILE + threadIdx.x;
    int y = blockIdx.y * TILE + threadIdx.y;
    for (int row = 0; row < TILE; row += ROWS) out[x * SIDE + y + row] = in[(y + row) * SIDE + x];
}

__global__ void transpose_tiled(const float *in, float *out) {
    __shared__ float tile[TILE][TILE];
    int x = blockIdx.x * TILE + threadIdx.x;
    int y = blockIdx.y * TILE + threadIdx.y;
    for (int row = 0; row < TILE; row += ROWS) tile[threadIdx.y + row][threadIdx.x] = in[(y + row) * SIDE + x];
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    for (int row = 0; row < TILE; row += ROWS) out[(y + row) * SIDE + x] = tile[threadIdx.x][threadIdx.y + row];
}

__global__ void histogram(int n, const float *in, unsigned *bins) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&bins[static_cast<int>(in[i]) % BINS], 1u);
}

__global__ void gemm_naive(const float *a, const float *b, float *c) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    float sum = 0.0f;
    for (int k = 0; k < GEMM_SIDE; ++k) sum += a[row * GEMM_SIDE + k] * b[k * GEMM_SIDE + column];
    c[row * GEMM_SIDE + column] = sum;
}

static bool transposed(const std::vector<float> &in, const float *device) {
    std::vector<float> out(CELLS);
    CHECK(cudaMemcpy(out.data(), device, CELLS * sizeof(float), cudaMemcpyDeviceToHost));
    for (int y = 0; y < SIDE; ++y)
        for (int x = 0; x < SIDE; ++x)
            if (out[x * SIDE + y] != in[y * SIDE + x]) return false;
    return true;
}

static bool counted(const std::vector<float> &in, const unsigned *device) {
    std::vector<unsigned> bins(BINS), expected(BINS);
    CHECK(cudaMemcpy(bins.data(), device, BINS * sizeof(unsigned), cudaMemcpyDeviceToHost));
    for (float value : in) expected[static_cast<int>(value) % BINS] += ROUNDS;
    return bins == expected;
}

// Small whole numbers, so that FP32 sums are exact whatever their order.
static bool multiplied(const std::vector<float> &in, const float *device) {
    std::vector<float> out(GEMM_SIDE * GEMM_SIDE);
    CHECK(cudaMemcpy(out.data(), device, out.size() * sizeof(float), cudaMemcpyDeviceToHost));
    for (int place = 0; place < GEMM_SIDE * GEMM_SIDE; place += 4099) {
        float sum = 0.0f;
        for (int k = 0; k < GEMM_SIDE; ++k)
            sum += in[place / GEMM_SIDE * GEMM_SIDE + k] * in[k * GEMM_SIDE + place % GEMM_SIDE];
        if (out[place] != sum) return false;
    }
    return true;
}

static bool added(const std::vector<float> &in, const float *device) {
    std::vector<float> out(CELLS);
    CHECK(cudaMemcpy(out.data(), device, CELLS * sizeof(float), cudaMemcpyDeviceToHost));
    for (int i = 0; i < CELLS; ++i)
        if (out[i] != 2.0f * ROUNDS * in[i]) return false;
    return true;
}

static bool said(const char *name, bool right) {
    if (!right) std::fprintf(stderr, "%s: wrong result\n", name);
    return right;
}

int main() {
    std::vector<float> host(CELLS);
    for (int i = 0; i < CELLS; ++i) host[i] = static_cast<float>(i * 7 % 61);
    float *in, *sums, *naive, *tiled, *product;
    unsigned *bins;
    CHECK(cudaMalloc(&in, CELLS * sizeof(float)));
    CHECK(cudaMalloc(&sums, CELLS * sizeof(float)));
    CHECK(cudaMalloc(&naive, CELLS * sizeof(float)));
    CHECK(cudaMalloc(&tiled, CELLS * sizeof(float)));
    CHECK(cudaMalloc(&product, GEMM_SIDE * GEMM_SIDE * sizeof(float)));
    CHECK(cudaMalloc(&bins, BINS * sizeof(unsigned)));
    CHECK(cudaMemcpy(in, host.data(), CELLS * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemset(sums, 0, CELLS * sizeof(float)));
    CHECK(cudaMemset(bins, 0, BINS * sizeof(unsigned)));

    dim3 tiles(SIDE / TILE, SIDE / TILE), lanes(TILE, ROWS);
    dim3 blocks(GEMM_SIDE / 16, GEMM_SIDE / 16), threads(16, 16);
    for (int round = 0; round < ROUNDS; ++round) {
        saxpy<<<CELLS / 256, 256>>>(CELLS, 2.0f, in, sums);
        transpose_naive<<<tiles, lanes>>>(in, naive);
        transpose_tiled<<<tiles, lanes>>>(in, tiled);
        histogram<<<CELLS / 256, 256>>>(CELLS, in, bins);
        gemm_naive<<<blocks, threads>>>(in, in, product);
        CHECK(cudaGetLastError());
    }
    CHECK(cudaDeviceSynchronize());

    bool right = said("saxpy", added(host, sums));
    right &= said("transpose_naive", transposed(host, naive));
    right &= said("transpose_tiled", transposed(host, tiled));
    right &= said("histogram", counted(host, bins));
    right &= said("gemm_naive", multiplied(host, product));
    return right ? 0 : 1;
}
