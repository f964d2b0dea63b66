piper_test(bootstrap_test LABELS unit SOURCES ${CMAKE_CURRENT_LIST_DIR}/bootstrap_test.cc LINK piper_bootstrap)
piper_test(rendezvous_test LABELS unit SOURCES ${CMAKE_CURRENT_LIST_DIR}/rendezvous_test.cc LINK piper_bootstrap)
# libgomp shows what it read when it was loaded.
if(NOT PIPER_SANITIZE)
  piper_add_test(spinning_is_bounded LABELS unit TIMEOUT 60 COMMAND piper-run --help)
  set_tests_properties(spinning_is_bounded PROPERTIES
    PASS_REGULAR_EXPRESSION "GOMP_SPINCOUNT = '1000'"
    ENVIRONMENT "OMP_DISPLAY_ENV=VERBOSE" ENVIRONMENT_MODIFICATION "OMP_WAIT_POLICY=unset:;GOMP_SPINCOUNT=unset:")
endif()
