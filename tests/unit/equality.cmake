# Rules on numbers: of the verifier alone.
piper_test(number_rules_test LABELS unit
  SOURCES cut_rules_test.cc number_rules_test.cc ordered_rows_test.cc ways_to_read_test.cc
  LINK piper_verify)

# Compiles plans: reads the driver, as plan_damage_test does.
if(TARGET piper_driver)
  piper_test(equality_test LABELS unit
    SOURCES contradicting_shapes_test.cc cut_equality_test.cc cut_experts_test.cc equality_test.cc experts_equality_test.cc
            whole_experts_test.cc
    LINK piper_driver piper_test_compiled_plans)
endif()
