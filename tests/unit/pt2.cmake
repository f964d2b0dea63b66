find_package(ZLIB REQUIRED)
piper_test(pt2_test SOURCES pt2_test.cc LINK piper_frontend ZLIB::ZLIB LABELS unit)
target_compile_definitions(pt2_test PRIVATE PIPER_TEST_MODELS="${PROJECT_SOURCE_DIR}/tests/models")
piper_test(functionalise_test SOURCES functionalise_test.cc LINK piper_frontend LABELS unit)
