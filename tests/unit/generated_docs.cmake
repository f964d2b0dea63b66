# docs/operators.md is what the tables in the source say.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_Interpreter_FOUND)
  piper_add_test(generated_docs LABELS unit TIMEOUT 60
    COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tools/generate_operator_docs.py --check)
endif()
