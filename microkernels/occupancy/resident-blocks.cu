// Blocks of a single warp, with few registers and no shared memory, that one SM holds at once.
#define ENTRY resident_blocks
#define BOUNDS __launch_bounds__(32)
#define LIVE 1
#include "resident.cuh"
