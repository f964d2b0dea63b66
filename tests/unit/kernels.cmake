# The tests of runtime/kernels compare with LibTorch, so they link it like the folder itself.
include(PiperTorch)
set(kernels_test_directory ${CMAKE_CURRENT_LIST_DIR})
piper_test(kernels_test GROUP kernels LABELS unit
  SOURCES ${kernels_test_directory}/kernels_test.cc ${kernels_test_directory}/kernels_heads_test.cc ${kernels_test_directory}/kernels_nn_test.cc
          ${kernels_test_directory}/kernels_experts_test.cc ${kernels_test_directory}/kernels_factor_test.cc
          ${kernels_test_directory}/kernels_meter_test.cc
          ${kernels_test_directory}/kernels_of_places_test.cc
          ${kernels_test_directory}/kernels_own_test.cc ${kernels_test_directory}/kernels_scratch_test.cc
          ${kernels_test_directory}/kernels_sgemm_test.cc ${kernels_test_directory}/kernels_testing.cc
  LINK piper_kernels piper_torch)
piper_test(waiting_kernels_test GROUP kernels LABELS unit SOURCES ${kernels_test_directory}/waiting_kernels_test.cc LINK piper_waiting_kernels piper_kernels)
# Once more with the library's products and with own ones on each instruction set, whatever this processor's own choice is.
foreach(choice library own.avx2 own.avx512)
  string(REPLACE "." ";PIPER_TILES=" variables "PIPER_SGEMM=${choice}")
  piper_add_test(kernels_test.${choice} GROUP kernels LABELS unit TIMEOUT 600 SKIP "asks for own products, but this processor"
    COMMAND kernels_test ENVIRONMENT "${variables};TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/tsan.supp")
endforeach()
