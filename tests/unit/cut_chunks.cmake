piper_test(cut_chunks_test LABELS unit SOURCES cut_chunks_test.cc LINK piper_passes piper_ir)
