// Blocks that one SM holds at once where registers are short: a warp takes a multiple of 256, from the quarter of them
// that belongs to its scheduler. Of 160 threads with 136 registers two blocks fit, though the SM has registers for
// three.
#define ENTRY resident_registers
#define BOUNDS __maxnreg__(REGISTERS)
#define LIVE (REGISTERS - 14)
#include "resident.cuh"
