if(TARGET piper_driver)
  piper_test(plan_damage_test LABELS unit
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/plan_damage_test.cc ${CMAKE_CURRENT_LIST_DIR}/plan_damages.cc ${CMAKE_CURRENT_LIST_DIR}/compiled_plans.cc
    LINK piper_driver)
  target_compile_definitions(plan_damage_test PRIVATE PIPER_TEST_MODELS="${PROJECT_SOURCE_DIR}/tests/models")
endif()
