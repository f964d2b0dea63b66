piper_test(stop_agreement_test LABELS unit SOURCES ${CMAKE_CURRENT_LIST_DIR}/stop_agreement_test.cc LINK piper_program piper_open_cuda)
