// Blocks that one SM holds at once where shared memory is short, at the sizes of which four fit exactly on some
// architecture (with what each block has reserved for the system), and a little more.
#define ENTRY resident_shared
#define BOUNDS __launch_bounds__(32)
#define LIVE 1
#include "resident.cuh"
