piper_test(diag_test LABELS unit SOURCES diag_test.cc LINK piper_diag)
target_compile_definitions(diag_test PRIVATE PIPER_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
