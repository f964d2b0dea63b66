piper_test(durable_files_test LABELS unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/durable_files_test.cc ${CMAKE_CURRENT_LIST_DIR}/plan_bundle_example.cc ${CMAKE_CURRENT_LIST_DIR}/plan_updates.cc
  LINK piper_plan)
