piper_test(autodiff_test LABELS unit SOURCES autodiff_test.cc LINK piper_autodiff)
