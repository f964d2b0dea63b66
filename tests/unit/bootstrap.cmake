piper_test(bootstrap_test LABELS unit SOURCES ${CMAKE_CURRENT_LIST_DIR}/bootstrap_test.cc LINK piper_bootstrap)
