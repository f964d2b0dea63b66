if(TARGET piper_driver)
  piper_test(evaluation_verify_test LABELS unit SOURCES evaluation_verify_test.cc LINK piper_driver piper_test_compiled_plans)
endif()
