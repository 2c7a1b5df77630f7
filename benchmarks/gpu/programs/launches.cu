// Launches kernels whose names, streams and numbers are hard to select by, and two that do real work.
//
//   launches                       everything below, once
//   launches --streams N           left and right, of equal shape, N launches each, alternating over two streams (10)
//   launches --templates N         templates with a negative int, and with bool, enum and unsigned arguments (1)
//   launches --empty N             N launches of a kernel that does nothing (2000)
//   launches --saxpy N             y = a x + y over 2^24 floats, N launches (4)
//   launches --graph N             a CUDA graph of left, left and right, captured once and launched N times (4)
//   launches --transpose N         a 4096 × 4096 transpose that writes with a stride of a row, N launches (4)
//   launches --plain N             three extern "C" kernels of equal shape in turns, N launches each (8)
//
// Each part checks its result and prints a line. Exit code 1: a result is wrong; 2: CUDA or the command line is.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace parts {

enum class Mode { plain, doubled };

__global__ void left(float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += 1.0f;
}

__global__ void right(float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += 2.0f;
}

template <int Offset>
__global__ void shifted(int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += Offset;
}

template <bool Negate, Mode How, unsigned Times>
__global__ void mixed(int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int add = How == Mode::doubled ? 2 : 1;
    for (unsigned time = 0; time < Times; time++) y[i] += Negate ? -add : add;
}

__global__ void empty() {}

__global__ void saxpy(float a, const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}

// Inefficient by intent: neighbouring threads write a whole row apart.
__global__ void transpose(const float* in, float* out, int side) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column < side && row < side) out[column * side + row] = in[row * side + column];
}

}  // namespace parts

// Names that are not mangled. The number of instructions tells which launch it was: each has another number of turns.
#define PLAIN(name, addend)                                                        \
    extern "C" __global__ void name(float* y, int turns) {                         \
        int i = blockIdx.x * blockDim.x + threadIdx.x;                             \
        _Pragma("unroll 1") for (int turn = 0; turn < turns; turn++) y[i] += addend; \
    }

PLAIN(plain_first, 1.0f)
PLAIN(plain_second, 2.0f)
PLAIN(plain_third, 3.0f)

static void must(cudaError_t code, const char* what) {
    if (code == cudaSuccess) return;
    std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(code));
    std::exit(2);
}

#define MUST(call) must((call), #call)

template <class T>
static T* zeros(size_t count) {
    T* found = nullptr;
    MUST(cudaMalloc(&found, count * sizeof(T)));
    MUST(cudaMemset(found, 0, count * sizeof(T)));
    return found;
}

template <class T>
static std::vector<T> fetched(const T* from, size_t count) {
    MUST(cudaGetLastError());
    MUST(cudaDeviceSynchronize());
    std::vector<T> found(count);
    MUST(cudaMemcpy(found.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost));
    return found;
}

template <class T>
static bool all_are(const std::vector<T>& found, T wanted) {
    for (T one : found) {
        if (one != wanted) return false;
    }
    return true;
}

static bool told(const char* part, int count, bool right) {
    std::printf("%s %d: %s\n", part, count, right ? "right" : "WRONG");
    return right;
}

static bool streams(int count) {
    const int n = 1 << 16;
    float* y[2] = {zeros<float>(n), zeros<float>(n)};
    cudaStream_t both[2];
    for (cudaStream_t& one : both) MUST(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    MUST(cudaDeviceSynchronize());
    for (int launch = 0; launch < count; launch++) {
        int one = launch % 2, other = 1 - one;
        parts::left<<<n / 256, 256, 0, both[one]>>>(y[one], n);
        parts::right<<<n / 256, 256, 0, both[other]>>>(y[other], n);
    }
    // Of `left` the first stream gets the even launches, of `right` the odd ones.
    float even = static_cast<float>((count + 1) / 2), odd = static_cast<float>(count / 2);
    bool right = all_are(fetched(y[0], n), even + 2.0f * odd) && all_are(fetched(y[1], n), odd + 2.0f * even);
    for (int one = 0; one < 2; one++) {
        MUST(cudaStreamDestroy(both[one]));
        MUST(cudaFree(y[one]));
    }
    return told("streams", count, right);
}

static bool templates(int count) {
    const int n = 1 << 16;
    int* y = zeros<int>(n);
    for (int launch = 0; launch < count; launch++) {
        parts::shifted<-2><<<n / 256, 256>>>(y, n);
        parts::shifted<7><<<n / 256, 256>>>(y, n);
        parts::mixed<true, parts::Mode::doubled, 3u><<<n / 256, 256>>>(y, n);
        parts::mixed<false, parts::Mode::plain, 4u><<<n / 256, 256>>>(y, n);
    }
    bool right = all_are(fetched(y, n), count * (-2 + 7 - 6 + 4));
    MUST(cudaFree(y));
    return told("templates", count, right);
}

static bool empty(int count) {
    for (int launch = 0; launch < count; launch++) parts::empty<<<1, 32>>>();
    MUST(cudaGetLastError());
    MUST(cudaDeviceSynchronize());
    return told("empty", count, true);
}

static bool saxpy(int count) {
    const int n = 1 << 24;
    std::vector<float> ones(n, 1.0f);
    float *x = zeros<float>(n), *y = zeros<float>(n);
    MUST(cudaMemcpy(x, ones.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    for (int launch = 0; launch < count; launch++) parts::saxpy<<<n / 256, 256>>>(2.0f, x, y, n);
    bool right = all_are(fetched(y, n), 2.0f * static_cast<float>(count));
    MUST(cudaFree(x));
    MUST(cudaFree(y));
    return told("saxpy", count, right);
}

static bool graph(int count) {
    const int n = 1 << 16;
    float* y = zeros<float>(n);
    cudaStream_t stream;
    cudaGraph_t captured;
    cudaGraphExec_t ready;
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaDeviceSynchronize());
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    parts::left<<<n / 256, 256, 0, stream>>>(y, n);
    parts::left<<<n / 256, 256, 0, stream>>>(y, n);
    parts::right<<<n / 256, 256, 0, stream>>>(y, n);
    MUST(cudaStreamEndCapture(stream, &captured));
    MUST(cudaGraphInstantiateWithFlags(&ready, captured, 0));
    for (int launch = 0; launch < count; launch++) MUST(cudaGraphLaunch(ready, stream));
    MUST(cudaStreamSynchronize(stream));
    bool right = all_are(fetched(y, n), 4.0f * static_cast<float>(count));
    MUST(cudaGraphExecDestroy(ready));
    MUST(cudaGraphDestroy(captured));
    MUST(cudaStreamDestroy(stream));
    MUST(cudaFree(y));
    return told("graph", count, right);
}

static bool transpose(int count) {
    const int side = 4096;
    const size_t n = static_cast<size_t>(side) * side;
    std::vector<float> rows(n);
    for (size_t i = 0; i < n; i++) rows[i] = static_cast<float>(i % 1021);
    float *in = zeros<float>(n), *out = zeros<float>(n);
    MUST(cudaMemcpy(in, rows.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    for (int launch = 0; launch < count; launch++) {
        parts::transpose<<<dim3(side / 32, side / 8), dim3(32, 8)>>>(in, out, side);
    }
    std::vector<float> columns = fetched(out, n);
    bool right = count > 0;
    for (size_t row = 0; row < side && right; row++) {
        for (size_t column = 0; column < side; column++) {
            right = right && columns[column * side + row] == rows[row * side + column];
        }
    }
    MUST(cudaFree(in));
    MUST(cudaFree(out));
    return told("transpose", count, right || count == 0);
}

static bool plain(int count) {
    const int n = 1 << 16;
    void (*const kernels[])(float*, int) = {plain_first, plain_second, plain_third};
    float *y = zeros<float>(n), sum = 0.0f;
    for (int launch = 0; launch < 3 * count; launch++) {
        kernels[launch % 3]<<<n / 256, 256>>>(y, launch + 1);
        sum += static_cast<float>((launch % 3 + 1) * (launch + 1));
    }
    bool right = all_are(fetched(y, n), sum);
    MUST(cudaFree(y));
    return told("plain", count, right);
}

struct Part {
    const char* option;
    int count;
    bool (*run)(int);
};

static int usage() {
    std::fprintf(stderr, "usage: launches [--PART N]..., PART: streams, templates, empty, saxpy, graph, transpose or plain\n");
    return 2;
}

int main(int count, char** words) {
    const Part every[] = {{"--streams", 10, streams},
                          {"--templates", 1, templates},
                          {"--empty", 2000, empty},
                          {"--saxpy", 4, saxpy},
                          {"--graph", 4, graph},
                          {"--transpose", 4, transpose},
                          {"--plain", 8, plain}};
    bool right = true;
    if (count == 1) {
        for (const Part& part : every) right = part.run(part.count) && right;
    }
    for (int word = 1; word < count; word += 2) {
        char* end = nullptr;
        long number = word + 1 < count ? std::strtol(words[word + 1], &end, 10) : -1;
        if (end == nullptr || *end != 0 || number < 0 || number > 1000000) return usage();
        const Part* asked = nullptr;
        for (const Part& part : every) {
            if (std::strcmp(part.option, words[word]) == 0) asked = &part;
        }
        if (asked == nullptr) return usage();
        right = asked->run(static_cast<int>(number)) && right;
    }
    return right ? 0 : 1;
}
