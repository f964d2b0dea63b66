piper_test(digest_test LABELS unit SOURCES ${CMAKE_CURRENT_LIST_DIR}/digest_test.cc ${CMAKE_CURRENT_LIST_DIR}/loss_spikes_test.cc
  LINK piper_trace piper_digest piper_test_plans)
piper_test(replica_check_test LABELS unit SOURCES ${CMAKE_CURRENT_LIST_DIR}/replica_check_test.cc LINK piper_exec)
