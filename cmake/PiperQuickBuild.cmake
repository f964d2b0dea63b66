# PIPER_QUICK_BUILD: the programs in a quarter of the processor time from nothing, for who builds once. A change costs more, and
# piperc runs slower. Sources are compiled as they are: tests/layering/check_unity.py holds that those of a library can be one.
include_guard()
option(PIPER_QUICK_BUILD "compile each library as one source, and all but loops over elements of tensors with -O1" OFF)

# piper_precompile(NAME HEADERS ...): an object library whose headers are compiled once, with -O1, for all targets that
# target_precompile_headers(TARGET REUSE_FROM NAME): the standard headers that many sources read, and HEADERS. Such targets have -O1,
# too: g++ 12 breaks down over a source of -O3 that reads headers compiled with -O1.
function(piper_precompile name)
  file(WRITE ${PROJECT_BINARY_DIR}/${name}.cc "")
  add_library(${name} OBJECT ${PROJECT_BINARY_DIR}/${name}.cc)
  target_link_libraries(${name} PRIVATE piper_options)
  # clang: headers are compared by content, so that a compiled header may come out of ccache.
  target_compile_options(${name} PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O1> "$<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>")
  target_precompile_headers(${name} PRIVATE <algorithm> <array> <atomic> <charconv> <chrono> <cmath> <condition_variable>
    <cstdint> <cstdio> <cstring> <deque> <exception> <filesystem> <fstream> <functional> <iostream> <limits> <map> <memory> <mutex> <numeric>
    <optional> <set> <span> <sstream> <string> <string_view> <thread> <tuple> <unordered_map> <unordered_set> <utility> <variant> <vector>
    ${ARGN})
endfunction()
piper_precompile(piper_standard_headers)

# piper_join_sources(TARGET): one source in the place of all but those that have flags of their own or are made by the build. CMake's own
# unity sources name files by absolute paths, so that ccache finds nothing of another clone.
function(piper_join_sources target)
  get_target_property(sources ${target} SOURCES)
  set(apart)
  set(joined "")
  foreach(source ${sources})
    set(own)
    foreach(property COMPILE_OPTIONS COMPILE_DEFINITIONS COMPILE_FLAGS INCLUDE_DIRECTORIES GENERATED)
      get_source_file_property(value ${source} ${property})
      if(value)
        list(APPEND own ${property})
      endif()
    endforeach()
    if(own OR NOT source MATCHES "[.]cc$")
      list(APPEND apart ${source})
      continue()
    endif()
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
    string(APPEND joined "#include \"${source}\"\n")
  endforeach()
  if(joined)
    set(file ${CMAKE_CURRENT_BINARY_DIR}/${target}_joined.cc)
    file(CONFIGURE OUTPUT ${file} CONTENT "${joined}" @ONLY)
    set_property(TARGET ${target} PROPERTY SOURCES ${file} ${apart})
  endif()
endfunction()

# piper_build_quickly(TARGET OPTIMISED): does so where PIPER_QUICK_BUILD is on. OPTIMISED: whether the whole target loops over elements.
function(piper_build_quickly target optimised)
  if(PIPER_QUICK_BUILD)
    # When the folder has said which sources have flags of their own. A deferred call evaluates variables when it is made.
    cmake_language(EVAL CODE "cmake_language(DEFER CALL piper_join_sources [[${target}]])")
    if(NOT optimised)
      target_compile_options(${target} PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O1>)
      target_precompile_headers(${target} REUSE_FROM piper_standard_headers)
    endif()
  endif()
endfunction()

# piper_element_loops(SOURCES ...): these of the folder loop over elements of tensors: -O3 in every build, each by itself.
function(piper_element_loops)
  set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS $<$<NOT:$<CONFIG:Debug>>:-O3>)
  set_property(SOURCE ${ARGN} PROPERTY SKIP_PRECOMPILE_HEADERS ON)
endfunction()
