piper_test(overlap_test LABELS unit SOURCES overlap_test.cc LINK piper_passes piper_emit)
