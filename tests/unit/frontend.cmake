piper_test(frontend_test SOURCES frontend_test.cc LINK piper_frontend LABELS unit)
target_compile_definitions(frontend_test PRIVATE PIPER_TEST_MODELS="${PROJECT_SOURCE_DIR}/tests/models")
piper_test(aten_experts_test SOURCES aten_experts_test.cc LINK piper_frontend LABELS unit)
piper_test(aten_calls_test SOURCES aten_calls_test.cc LINK piper_frontend LABELS unit)
