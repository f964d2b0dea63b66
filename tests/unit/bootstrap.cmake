piper_test(bootstrap_test LABELS unit SOURCES ${CMAKE_CURRENT_LIST_DIR}/bootstrap_test.cc LINK piper_bootstrap)
piper_test(rendezvous_test LABELS unit SOURCES ${CMAKE_CURRENT_LIST_DIR}/rendezvous_test.cc LINK piper_bootstrap)
