piper_test(normalise_losses_test LABELS unit SOURCES normalise_losses_test.cc LINK piper_passes piper_fold)
