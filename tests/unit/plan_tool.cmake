piper_test(plan_tool_test LABELS unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/plan_tool_test.cc
  LINK piper_plan_commands piper_test_plans)
if(TARGET piper_driver)
  piper_test(cut_pictures_test LABELS unit
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/cut_pictures_test.cc
    LINK piper_plan_commands piper_test_compiled_plans)
endif()
