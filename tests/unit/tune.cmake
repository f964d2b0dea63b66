piper_test(tune_test LABELS unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/tune_test.cc ${CMAKE_CURRENT_LIST_DIR}/list_schedule_test.cc ${CMAKE_CURRENT_LIST_DIR}/strategy_text_test.cc
  LINK piper_tune)
