// Seconds between empty kernels that are launched in a row.
// Mechanism: the host launches many kernels of one block that do nothing; events around them take the time on the GPU.
// They wait behind one that spins until all are queued, as long as the queue holds them.
// Formula: time between the events / number of kernels.
// What would make it lie: a host that is slower than the GPU (its own time for a launch is then what is measured), a
// queue that is full, profilers.
extern "C" __global__ void __launch_bounds__(32)
null_queued() {}
