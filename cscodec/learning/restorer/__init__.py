"""How the weights of decoder ``learned`` are trained; needs PyTorch, ``cscodec[restorer]``."""
