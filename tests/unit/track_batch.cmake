piper_test(track_batch_test LABELS unit SOURCES track_batch_test.cc LINK piper_passes)
