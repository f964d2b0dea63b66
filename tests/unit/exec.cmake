piper_test(exec_test LABELS unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/exec_test.cc ${CMAKE_CURRENT_LIST_DIR}/checkpoint_test.cc ${CMAKE_CURRENT_LIST_DIR}/trace_test.cc ${CMAKE_CURRENT_LIST_DIR}/mean_loss_test.cc
  LINK piper_exec piper_test_plans)
piper_test(scratch_note_test LABELS unit SOURCES ${CMAKE_CURRENT_LIST_DIR}/scratch_note_test.cc LINK piper_exec)
piper_test(cut_tensor_test LABELS unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/cut_tensor_test.cc
  LINK piper_program piper_open_cuda piper_plan_commands piper_test_plans)
