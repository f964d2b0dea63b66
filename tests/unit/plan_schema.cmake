find_package(nlohmann_json REQUIRED)
piper_test(plan_schema_test LABELS unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/plan_schema_test.cc
  LINK piper_plan_schema piper_plan nlohmann_json::nlohmann_json piper_test_plans)
