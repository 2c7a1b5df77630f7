// Unfolds the 3 × 3 patches of images (im2col, padding 1): images[images][channels][height][width] →
// patches[channels][3][3][images][height][width].
#include "case.cuh"

extern "C" __global__ void __launch_bounds__(256)
slow(const float *__restrict__ in, float *__restrict__ patches, i32 images, i32 channels, i32 height, i32 width)
{
    const i32 total = channels * 9 * images * height * width;
    for (i32 place = blockIdx.x * 256 + threadIdx.x; place < total; place += gridDim.x * 256) {
        i32 rest = place;
        const i32 x = rest % width;
        rest /= width;
        const i32 y = rest % height;
        rest /= height;
        const i32 image = rest % images;
        rest /= images;
        const i32 from_x = x + rest % 3 - 1, from_y = y + rest / 3 % 3 - 1, channel = rest / 9;
        const i32 from = ((image * channels + channel) * height + from_y) * width + from_x;
        const bool inside = (u32)from_x < width & (u32)from_y < height;
        patches[place] = inside ? in[from] : 0;
    }
}

extern "C" __global__ void __launch_bounds__(256)
fixed(const float *__restrict__ in, float *__restrict__ patches, i32 images, i32 channels, i32 height, i32 width)
{
    // A thread copies four pixels in a row to the three rows of patches that they lie in for one shift in y.
    const i32 pixels = images * height * width, pixel = (blockIdx.x * 256 + threadIdx.x) * 4;
    const i32 channel = blockIdx.y / 3, shift = blockIdx.y % 3, lane = threadIdx.x % 32;
    const i32 line = pixel / width, x = pixel - line * width, image = line / height, y = line - image * height;
    const i32 from_y = y + shift - 1;
    const bool inside = pixel < pixels && from_y >= 0 && from_y < height;
    const float *from = in + ((size_t)(image * channels + channel) * height + from_y) * width + x;
    const float4 middle = inside ? *(const float4 *)from : make_float4(0, 0, 0, 0);
    float left = __shfl_up_sync(~0u, middle.w, 1), right = __shfl_down_sync(~0u, middle.x, 1);
    if (lane == 0 && inside && x > 0)
        left = from[-1];
    if (lane == 31 && inside && x + 4 < width)
        right = from[4];
    if (x == 0)
        left = 0;
    if (x + 4 == width)
        right = 0;
    if (pixel >= pixels)
        return;
    float *to = patches + (size_t)blockIdx.y * 3 * pixels + pixel;
    *(float4 *)to = make_float4(left, middle.x, middle.y, middle.z);
    *(float4 *)(to + pixels) = middle;
    *(float4 *)(to + 2 * (size_t)pixels) = make_float4(middle.y, middle.z, middle.w, right);
}
