find_package(nlohmann_json REQUIRED)
piper_test(plan_schema_test LABELS unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/plan_schema_test.cc
  LINK piper_plan_schema piper_plan nlohmann_json::nlohmann_json piper_test_plans)
get_filename_component(plan_schema ${CMAKE_CURRENT_LIST_DIR}/../../schemas/plan.schema.json ABSOLUTE)
get_filename_component(plan_fields ${CMAKE_CURRENT_LIST_DIR}/../../docs/plan-fields.md ABSOLUTE)
target_compile_definitions(plan_schema_test PRIVATE PIPER_PLAN_SCHEMA="${plan_schema}" PIPER_PLAN_FIELDS="${plan_fields}")
