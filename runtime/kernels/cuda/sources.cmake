# The sources of CUDA's own kernels: for nvcc (runtime/CMakeLists.txt) and for the CPU's compiler (tests/shim).
set(piper_cuda_kernels ${CMAKE_CURRENT_LIST_DIR})
set(piper_cuda_device_sources activations attention copies counter_dropout cross_entropy experts gradient_scalars
  grouped_products indexing norms optimizer piece_sum pooling rotary running_sum softmax)
list(TRANSFORM piper_cuda_device_sources REPLACE "(.+)" "${piper_cuda_kernels}/\\1.cu")
set(piper_cuda_host_sources attention_rows bind_activations bind_attention bind_copies bind_cross_entropy bind_dropout
  bind_experts bind_gradient_scalars bind_indexing bind_norms bind_optimizer bind_pooling bind_rotary bind_running_sum
  bind_softmax bound_call
  cuda_library group_commands)
list(TRANSFORM piper_cuda_host_sources REPLACE "(.+)" "${piper_cuda_kernels}/\\1.cc")
