# What every target of piper is compiled with: piper_library() and piper_program().
include_guard()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
find_program(PIPER_CCACHE ccache)
if(PIPER_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths relative to the checkout: a second clone of the same sources finds the objects of the first. What ccache asks for to
  # take sources with precompiled headers: such headers are compared by content, and no source uses __TIME__.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${PIPER_CCACHE})
endif()
# Installed programs find LibTorch where the build found it.
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
find_package(Threads REQUIRED)

set(warnings_as_errors ${PIPER_WARNINGS_AS_ERRORS})
if(PIPER_WARNINGS_AS_ERRORS STREQUAL "AUTO")
  set(warnings_as_errors OFF)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12 AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    set(warnings_as_errors ON)
  endif()
endif()
add_library(piper_options INTERFACE)
target_include_directories(piper_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(piper_options INTERFACE -Wall -Wextra -Wno-missing-field-initializers
  # g++ 12 reports these for standard containers at -O2 where nothing is wrong (GCC bugs 105329, 105562).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict> $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
  -fno-omit-frame-pointer $<$<BOOL:${warnings_as_errors}>:-Werror>)
# A read past the end of a container ends the program, instead of taking what lies after it.
target_compile_definitions(piper_options INTERFACE $<$<BOOL:${PIPER_QUICK_BUILD}>:_GLIBCXX_ASSERTIONS>)
target_link_libraries(piper_options INTERFACE Threads::Threads)
if(PIPER_SANITIZE)
  target_compile_options(piper_options INTERFACE -fsanitize=${PIPER_SANITIZE})
  target_link_options(piper_options INTERFACE -fsanitize=${PIPER_SANITIZE})
endif()
include(PiperQuickBuild)

# piper_library(NAME [OPTIMISED] SOURCES ... LINK ... PRIVATE_LINK ...): a static library of one folder. OPTIMISED: in a quick
# build too.
function(piper_library name)
  cmake_parse_arguments(arg "OPTIMISED" "" "SOURCES;LINK;PRIVATE_LINK" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  piper_build_quickly(${name} ${arg_OPTIMISED})
  target_link_libraries(${name} PUBLIC piper_options ${arg_LINK} PRIVATE ${arg_PRIVATE_LINK})
endfunction()

# piper_program(NAME SOURCES ... LINK ...): an executable in bin/.
function(piper_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  piper_build_quickly(${name} FALSE)
  target_link_libraries(${name} PRIVATE piper_options ${arg_LINK})
  install(TARGETS ${name} RUNTIME DESTINATION bin)
endfunction()
