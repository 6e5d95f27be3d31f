"""What may leave a device: bits of the operating system, integers, no floating point, no seed."""
