"""What builds the package: kernels to machine code, and the hook that puts it into wheels."""
