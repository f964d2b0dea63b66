piper_test(fold_test LABELS unit SOURCES fold_test.cc LINK piper_fold)
