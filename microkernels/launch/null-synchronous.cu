// Seconds from the call that launches an empty kernel to its end, as the host sees it.
// Mechanism: the host launches one block of a kernel that does nothing and waits for it, again and again.
// Formula: time of the launches / their number.
// What would make it lie: a host that sleeps while it waits (it must spin), a GPU whose clocks are idle, a kernel that
// does something, a launch through a library that adds time of its own.
extern "C" __global__ void __launch_bounds__(32)
null_synchronous() {}
