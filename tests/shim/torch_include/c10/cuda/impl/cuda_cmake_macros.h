// Stands for the header by which a LibTorch for CUDA is known (tests/shim/torch_cuda_standin.cc).
#pragma once
