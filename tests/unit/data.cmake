piper_test(data_test LABELS unit SOURCES ${CMAKE_CURRENT_LIST_DIR}/data_test.cc LINK piper_data)
