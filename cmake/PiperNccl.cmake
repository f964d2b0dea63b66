# Finds NCCL and makes the target `piper_nccl`. runtime/hal/nccl links it, and nothing else; only with PIPER_WITH_CUDA.
# Without NCCL there is no such target: ranks of one process need none.
#
# Search order: PIPER_NCCL_DIR (cache variable or environment), the system, the Python packages of the project's .venv
# (nvidia/nccl). Version 2.28 or newer: ncclConfig_t has names of communicators.
include_guard()

set(PIPER_NCCL_DIR "" CACHE PATH "directory of NCCL that holds include/ and lib/ (empty: search)")

function(piper_find_nccl)
  file(GLOB in_venv ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/nvidia/nccl)
  foreach(directory IN ITEMS "${PIPER_NCCL_DIR}" "$ENV{PIPER_NCCL_DIR}" /usr /usr/local ${in_venv})
    if(NOT directory OR NOT EXISTS ${directory}/include/nccl.h)
      continue()
    endif()
    file(STRINGS ${directory}/include/nccl.h version REGEX "^#define NCCL_VERSION_CODE [0-9]+")
    string(REGEX MATCH "[0-9]+$" version "${version}")
    if(NOT version OR version LESS 22800)
      message(STATUS "NCCL: ${directory} is older than 2.28")
      continue()
    endif()
    find_library(library NAMES nccl libnccl.so.2 PATHS ${directory}/lib ${directory}/lib64
      ${directory}/lib/${CMAKE_LIBRARY_ARCHITECTURE} NO_DEFAULT_PATH NO_CACHE)
    if(library)
      cmake_path(NORMAL_PATH directory)
      message(STATUS "NCCL: ${directory} (${version})")
      add_library(piper_nccl SHARED IMPORTED GLOBAL)
      set_target_properties(piper_nccl PROPERTIES IMPORTED_LOCATION ${library}
        INTERFACE_INCLUDE_DIRECTORIES ${directory}/include)
      return()
    endif()
  endforeach()
  message(STATUS "NCCL: none in PIPER_NCCL_DIR, the system or .venv; ranks on GPUs are those of one process")
endfunction()

if(NOT TARGET piper_nccl)
  piper_find_nccl()
endif()
