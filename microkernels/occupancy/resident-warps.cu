// Blocks of 4 warps that one SM holds at once: a quarter of its warps.
#define ENTRY resident_warps
#define BOUNDS __launch_bounds__(128)
#define LIVE 1
#include "resident.cuh"
