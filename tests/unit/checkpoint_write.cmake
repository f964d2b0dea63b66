piper_test(checkpoint_write_test LABELS unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/checkpoint_write_test.cc ${CMAKE_CURRENT_LIST_DIR}/checkpoint_refuse_test.cc
  LINK piper_checkpoint piper_checkpoint_files)
piper_test(checkpoint_damage_test LABELS unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/checkpoint_damage_test.cc
  LINK piper_checkpoint piper_checkpoint_files)
