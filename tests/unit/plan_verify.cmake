piper_test(plan_verify_test LABELS unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/plan_verify_test.cc
  LINK piper_verify piper_test_plans)
piper_test(live_at_peak_test LABELS unit SOURCES ${CMAKE_CURRENT_LIST_DIR}/live_at_peak_test.cc LINK piper_verify piper_test_plans)
piper_test(cut_plans_test LABELS unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/cut_plans_test.cc
  LINK piper_verify piper_test_plans)
