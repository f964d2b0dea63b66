piper_test(checkpoint_write_test LABELS unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/checkpoint_write_test.cc
  LINK piper_checkpoint piper_checkpoint_files)
add_test(NAME checkpoint_write_states COMMAND checkpoint_write_test [states])
set_tests_properties(checkpoint_write_states PROPERTIES LABELS "unit;slow" TIMEOUT 600)
piper_test(checkpoint_damage_test LABELS unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/checkpoint_damage_test.cc
  LINK piper_checkpoint piper_checkpoint_files)
