piper_test(pack_test LABELS unit SOURCES ${CMAKE_CURRENT_LIST_DIR}/pack_test.cc LINK piper_emit)
piper_test(lives_test LABELS unit SOURCES ${CMAKE_CURRENT_LIST_DIR}/lives_test.cc LINK piper_emit)
piper_test(divide_workspaces_test LABELS unit SOURCES ${CMAKE_CURRENT_LIST_DIR}/divide_workspaces_test.cc LINK piper_emit)
