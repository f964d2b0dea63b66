piper_test(families_test LABELS unit SOURCES families_test.cc LINK piper_strategy)
