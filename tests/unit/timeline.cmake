piper_test(timeline_test LABELS unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/timeline_test.cc ${CMAKE_CURRENT_LIST_DIR}/plan_bundle_example.cc ${CMAKE_CURRENT_LIST_DIR}/plan_updates.cc
  LINK piper_timeline)
