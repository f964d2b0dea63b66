piper_test(timeline_test LABELS unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/timeline_test.cc ${CMAKE_CURRENT_LIST_DIR}/line_costs_test.cc ${CMAKE_CURRENT_LIST_DIR}/priced_test.cc
  LINK piper_timeline piper_test_plans)
piper_test(load_machine_test LABELS unit SOURCES load_machine_test.cc LINK piper_machine)
