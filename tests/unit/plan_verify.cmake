piper_test(plan_verify_test LABELS unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/plan_verify_test.cc ${CMAKE_CURRENT_LIST_DIR}/plan_bundle_example.cc
    ${CMAKE_CURRENT_LIST_DIR}/hand_written_plans.cc ${CMAKE_CURRENT_LIST_DIR}/plan_updates.cc
  LINK piper_verify)
