# The tests of runtime/kernels compare with LibTorch, so they link it like the folder itself.
include(PiperTorch)
set(kernels_test_directory ${CMAKE_CURRENT_LIST_DIR})
piper_test(kernels_test LABELS unit
  SOURCES ${kernels_test_directory}/kernels_test.cc ${kernels_test_directory}/kernels_nn_test.cc
          ${kernels_test_directory}/kernels_experts_test.cc
          ${kernels_test_directory}/kernels_own_test.cc ${kernels_test_directory}/kernels_scratch_test.cc
          ${kernels_test_directory}/kernels_sgemm_test.cc ${kernels_test_directory}/kernels_testing.cc
  LINK piper_kernels piper_torch)
# Once more with the library's products, on processors where the own ones are chosen.
add_test(NAME kernels_test.library_products COMMAND kernels_test)
set_tests_properties(kernels_test.library_products PROPERTIES LABELS unit TIMEOUT 600
  ENVIRONMENT "PIPER_SGEMM=library;TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/tsan.supp")
