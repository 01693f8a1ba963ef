"""What running work needs of the machine: time limits, interrupts, memory, the garbage collector."""
