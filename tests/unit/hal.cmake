piper_test(hal_refusals_test LABELS unit SOURCES hal_refusals_test.cc ${PROJECT_SOURCE_DIR}/runtime/hal/mpi/no_mpi.cc LINK piper_hal)
piper_test(polling_test LABELS unit SOURCES polling_test.cc LINK piper_hal)
piper_test(gpu_environment_test LABELS unit SOURCES gpu_environment_test.cc LINK piper_hal)
