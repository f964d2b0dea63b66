piper_test(diag_test LABELS unit SOURCES diag_test.cc LINK piper_diag)
