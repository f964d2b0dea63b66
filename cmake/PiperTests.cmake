# How tests are compiled and registered: piper_test(), piper_add_test().
include_guard()
# GNU time, by which each test leaves a line in test_times.txt: its name, processor seconds (user, system), seconds on the wall.
# tools/check/report.py reads them.
find_program(PIPER_TIME NAMES gtime time NO_CACHE)
set(piper_measure)
if(PIPER_TIME)
  set(piper_measure ${PIPER_TIME} --quiet --append --output=${PROJECT_BINARY_DIR}/test_times.txt)
endif()

# The processor seconds of tests that take more than a few, lines "SECONDS NAME": they begin first.
set(piper_costs ${PROJECT_SOURCE_DIR}/tests/costs.txt)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${piper_costs})
file(STRINGS ${piper_costs} lines REGEX "^[0-9]")
foreach(line ${lines})
  string(REGEX MATCH "^([0-9]+) +(.+)$" line "${line}")
  set(piper_cost_of_${CMAKE_MATCH_2} ${CMAKE_MATCH_1})
endforeach()

# piper_add_test(NAME [GROUP group] [LABELS ...] [TIMEOUT seconds] [SKIP regex of what it prints] [SCRATCH folder] [ENVIRONMENT ...]
# COMMAND program arguments...): a test of one group of tests/budget.txt, by default the one that `piper_test_group` names, a variable of
# the folder. SCRATCH: where it works, removed when it has passed.
function(piper_add_test name)
  cmake_parse_arguments(arg "" "GROUP;SKIP;TIMEOUT;SCRATCH" "LABELS;COMMAND;ENVIRONMENT" ${ARGN})
  if(NOT arg_GROUP)
    set(arg_GROUP ${piper_test_group})
  endif()
  if(NOT arg_GROUP)
    message(FATAL_ERROR "${name}: no GROUP, and the folder sets no piper_test_group")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  list(POP_FRONT arg_COMMAND program)
  if(TARGET ${program})
    set(program $<TARGET_FILE:${program}>)
  endif()
  set(measure ${piper_measure})
  if(measure)
    list(APPEND measure --format=${name}\ %U\ %S\ %e)
  endif()
  set(remove)
  if(arg_SCRATCH)
    set(remove ${PROJECT_SOURCE_DIR}/tests/remove_scratch.sh ${arg_SCRATCH})
  endif()
  add_test(NAME ${name} COMMAND ${measure} ${remove} ${program} ${arg_COMMAND})
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS};group:${arg_GROUP}" TIMEOUT ${arg_TIMEOUT}
    ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1;${arg_ENVIRONMENT}")
  if(DEFINED piper_cost_of_${name})
    set_tests_properties(${name} PROPERTIES COST ${piper_cost_of_${name}})
  endif()
  if(arg_SKIP)
    set_tests_properties(${name} PROPERTIES SKIP_REGULAR_EXPRESSION "${arg_SKIP}")
  endif()
endfunction()

# piper_compile_test(TARGET LINK ...): links and compiles an executable of tests as piper_test does.
function(piper_compile_test name)
  cmake_parse_arguments(arg "" "" "LINK" ${ARGN})
  target_link_libraries(${name} PRIVATE piper_options piper_test_main ${arg_LINK})
  target_compile_options(${name} PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O1>)
  # Libraries for libpiper_cuda.so are compiled with -fPIC, and so are these headers then, executables with -fPIE: which g++ does not mix.
  if(NOT CMAKE_POSITION_INDEPENDENT_CODE)
    set(headers piper_test_headers)
    if("piper_torch" IN_LIST arg_LINK)
      set(headers piper_torch_test_headers)
    endif()
    target_precompile_headers(${name} REUSE_FROM ${headers})
  endif()
endfunction()

# piper_test(NAME [GROUP group] LABELS ... SOURCES ... LINK ...): one Catch2 program, one test. Compiled with -O1: a test runs about once
# for each time that it is compiled.
function(piper_test name)
  cmake_parse_arguments(arg "" "GROUP" "SOURCES;LINK;LABELS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  piper_compile_test(${name} LINK ${arg_LINK})
  piper_add_test(${name} GROUP ${arg_GROUP} LABELS ${arg_LABELS} TIMEOUT 600 COMMAND ${name}
    ENVIRONMENT "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/tsan.supp;UCX_MEM_EVENTS=no")
endfunction()
