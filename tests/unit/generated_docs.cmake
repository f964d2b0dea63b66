# docs/operators.md is what the tables in the source say.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_Interpreter_FOUND)
  add_test(NAME generated_docs COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tools/generate_operator_docs.py --check)
  set_tests_properties(generated_docs PROPERTIES LABELS unit TIMEOUT 60 ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
endif()
