"""One thread: the models are too small for more, and the machine may be shared."""

import torch

torch.set_num_threads(1)
