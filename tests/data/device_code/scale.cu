// What the fat binaries of this folder are made of; README.md says by which commands.
extern "C" __global__ void __launch_bounds__(128) scale(float *out, const float *in, int n)
{
    __shared__ float tile[128];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = i < n ? in[i] : 0.0f;
    __syncthreads();
    if (i < n)
        out[i] = tile[threadIdx.x ^ 1] / in[n - i];
}

#ifdef MORE
extern "C" __global__ void copy(float *out, const float *in)
{
    out[threadIdx.x] = in[threadIdx.x];
}
#endif
