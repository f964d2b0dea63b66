piper_test(digest_test LABELS unit SOURCES ${CMAKE_CURRENT_LIST_DIR}/digest_test.cc LINK piper_trace piper_digest)
