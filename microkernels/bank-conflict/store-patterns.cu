// Cycles that one SM takes for a shared store by a warp: side by side, down a padded column, all lanes on one element.
// Mechanism: lane l writes element l * stride. Stride 1 is a row, 33 a column of a tile that is padded by one element,
// 0 one element for all lanes.
// Formula: cycles of the SM per store = cycles / (warps * UNROLL * iterations): WIDTH / 4 for strides 1 and 33. Stride
// 0 takes 1 with 4 bytes; whether one wavefront serves 32 lanes with 8 and 16 bytes, too, is not published.
// What would make it lie: stores that the compiler merges or drops, too few warps, an issue rate below one store per
// clock.
#include "conflict.cuh"

extern "C" __global__ void __launch_bounds__(1024, 1)
store_patterns(Clocks *clocks, u32 iterations, u32 *sink, u32 stride) {
    time_stores<WIDTH>(clocks, iterations, sink, stride);
}
