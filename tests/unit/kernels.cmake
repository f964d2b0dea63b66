# The tests of runtime/kernels compare with LibTorch, so they link it like the folder itself.
include(PiperTorch)
set(kernels_test_directory ${CMAKE_CURRENT_LIST_DIR})
piper_test(kernels_test LABELS unit
  SOURCES ${kernels_test_directory}/kernels_test.cc ${kernels_test_directory}/kernels_nn_test.cc
          ${kernels_test_directory}/kernels_experts_test.cc
          ${kernels_test_directory}/kernels_own_test.cc ${kernels_test_directory}/kernels_scratch_test.cc
          ${kernels_test_directory}/kernels_sgemm_test.cc ${kernels_test_directory}/kernels_testing.cc
  LINK piper_kernels piper_torch)
# Once more with each choice of products, whatever this processor's own is.
foreach(products library own)
  add_test(NAME kernels_test.${products}_products COMMAND kernels_test)
  set_tests_properties(kernels_test.${products}_products PROPERTIES LABELS unit TIMEOUT 600
    SKIP_REGULAR_EXPRESSION "asks for own products, but this processor has no AVX-512"
    ENVIRONMENT "PIPER_SGEMM=${products};TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/tsan.supp")
endforeach()
