piper_test(plan_io_test LABELS unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/plan_io_test.cc ${CMAKE_CURRENT_LIST_DIR}/cuts_io_test.cc ${CMAKE_CURRENT_LIST_DIR}/program_text_test.cc ${CMAKE_CURRENT_LIST_DIR}/rank_run_test.cc ${CMAKE_CURRENT_LIST_DIR}/like_plan_text_test.cc ${CMAKE_CURRENT_LIST_DIR}/mapped_names_test.cc ${CMAKE_CURRENT_LIST_DIR}/optimizer_text_test.cc ${CMAKE_CURRENT_LIST_DIR}/weight_files_test.cc ${CMAKE_CURRENT_LIST_DIR}/chunk_digests_test.cc ${CMAKE_CURRENT_LIST_DIR}/device_memory_test.cc ${CMAKE_CURRENT_LIST_DIR}/element_order_test.cc
  LINK piper_plan piper_test_plans)
