piper_test(search_test LABELS unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/search_test.cc ${CMAKE_CURRENT_LIST_DIR}/search_files_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/search_space_test.cc
  LINK piper_search)
piper_test(search_exhaustion_test LABELS unit slow
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/search_exhaustion_test.cc
  LINK piper_search)
# It prices 57,000 points.
set_tests_properties(search_exhaustion_test PROPERTIES TIMEOUT 2400)
