piper_test(live_test LABELS unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/ring_test.cc ${CMAKE_CURRENT_LIST_DIR}/stragglers_test.cc ${CMAKE_CURRENT_LIST_DIR}/wait_graph_test.cc
  LINK piper_trace piper_live piper_test_plans)
