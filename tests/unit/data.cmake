piper_test(data_test LABELS unit SOURCES ${CMAKE_CURRENT_LIST_DIR}/data_test.cc ${CMAKE_CURRENT_LIST_DIR}/permutation_test.cc ${CMAKE_CURRENT_LIST_DIR}/read_ahead_test.cc ${CMAKE_CURRENT_LIST_DIR}/data_form_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/mixture_test.cc ${CMAKE_CURRENT_LIST_DIR}/mixed_source_test.cc LINK piper_data)
