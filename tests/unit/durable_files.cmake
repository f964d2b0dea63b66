piper_test(durable_files_test LABELS unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/durable_files_test.cc
  LINK piper_plan piper_test_plans)
