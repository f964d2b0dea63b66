if(PIPER_COMPONENTS STREQUAL "all")
  piper_test(schedule_round_trip_test LABELS unit SOURCES schedule_round_trip_test.cc LINK piper_driver)
  target_compile_definitions(schedule_round_trip_test PRIVATE PIPER_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
endif()
