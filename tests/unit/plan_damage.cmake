if(TARGET piper_driver)
  piper_test(plan_damage_test LABELS unit
    SOURCES plan_damage_test.cc plan_damages.cc damage_bytes.cc damage_deadlock.cc damage_equality.cc damage_matching.cc damage_meaning.cc
      damage_precision.cc damage_programs.cc damage_sums.cc damage_types.cc damage_updates.cc
    LINK piper_driver piper_test_plans piper_test_compiled_plans)
endif()
