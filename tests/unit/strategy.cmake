piper_test(strategy_test LABELS unit SOURCES strategy_test.cc strategy_wrong_files_test.cc LINK piper_directives piper_strategy)
target_compile_definitions(strategy_test PRIVATE PIPER_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
piper_test(resolve_directives_test LABELS unit SOURCES resolve_directives_test.cc LINK piper_directives piper_strategy)
