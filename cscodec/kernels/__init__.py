"""What runs as machine code: one file per stage, how kernels are declared, and their library."""
