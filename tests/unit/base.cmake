piper_test(base_test LABELS unit SOURCES base_test.cc LINK piper_plan)
