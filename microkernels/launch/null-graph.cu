// Seconds between empty kernels that follow each other in one CUDA graph.
// Mechanism: many kernels of one block that do nothing, each after the one before, captured in a graph that is launched
// once; events around it take the time.
// Formula: time between the events / number of kernels in the graph.
// What would make it lie: a graph with branches, whose kernels run side by side, the launch of the graph itself (the
// number of kernels is varied).
extern "C" __global__ void __launch_bounds__(32)
null_graph() {}
