# The tests of runtime/kernels compare with LibTorch, so they link it like the folder itself.
include(PiperTorch)
set(kernels_test_directory ${CMAKE_CURRENT_LIST_DIR})
piper_test(kernels_test LABELS unit
  SOURCES ${kernels_test_directory}/kernels_test.cc ${kernels_test_directory}/kernels_nn_test.cc
          ${kernels_test_directory}/kernels_experts_test.cc
          ${kernels_test_directory}/kernels_own_test.cc ${kernels_test_directory}/kernels_scratch_test.cc
          ${kernels_test_directory}/kernels_testing.cc
  LINK piper_kernels piper_torch)
