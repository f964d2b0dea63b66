# Finds LibTorch and makes the INTERFACE target `piper_torch`. runtime/kernels and runtime/hal's
# TCP store link it, and nothing else.
#
# Search order: PIPER_TORCH_DIR (cache variable or environment; the directory that holds include/ and
# lib/), the project's .venv, the torch of the active python3. torch's own package file is not used: it
# asks for CUDA, Kineto and an ABI define that a plain CPU user does not need.
include_guard()

set(PIPER_TORCH_DIR "" CACHE PATH "directory of LibTorch that holds include/ and lib/ (empty: search)")

function(piper_find_torch result)
  set(candidates)
  if(PIPER_TORCH_DIR)
    list(APPEND candidates ${PIPER_TORCH_DIR})
  elseif(DEFINED ENV{PIPER_TORCH_DIR})
    list(APPEND candidates $ENV{PIPER_TORCH_DIR})
  else()
    file(GLOB in_venv ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch)
    list(APPEND candidates ${in_venv})
    find_program(PIPER_PYTHON3 python3)
    if(PIPER_PYTHON3)
      execute_process(
        COMMAND ${PIPER_PYTHON3} -c
                "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
        OUTPUT_VARIABLE of_python OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
      if(of_python)
        list(APPEND candidates ${of_python})
      endif()
    endif()
  endif()
  foreach(directory IN LISTS candidates)
    if(EXISTS ${directory}/include/ATen/core/Tensor.h AND EXISTS ${directory}/lib/libtorch_cpu.so
       AND EXISTS ${directory}/lib/libc10.so)
      set(${result} ${directory} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  list(JOIN candidates "\n  " tried)
  message(FATAL_ERROR
    "LibTorch was not found: no directory with include/ATen/core/Tensor.h, lib/libtorch_cpu.so and lib/libc10.so.\n"
    "Looked at:\n  ${tried}\n"
    "Install torch into ${PROJECT_SOURCE_DIR}/.venv, or name the directory that holds include/ and lib/:\n"
    "  cmake -DPIPER_TORCH_DIR=<path to the torch package or to libtorch> ...")
endfunction()

# A build for CUDA wants libcudart and libcupti even where only the CPU is used. Beside LibTorch as Python packages they
# are found by itself; `result` is the folder of CUDA's toolkit that has them otherwise, or empty.
function(piper_find_cuda_of_torch directory result)
  set(${result} "" PARENT_SCOPE)
  if(NOT EXISTS ${directory}/lib/libc10_cuda.so OR EXISTS ${directory}/../nvidia/cu13/lib/libcupti.so.13)
    return()
  endif()
  include(${PROJECT_SOURCE_DIR}/cmake/PiperCudaPlaces.cmake)
  piper_cuda_places(places)
  foreach(place IN LISTS places)
    foreach(libraries IN ITEMS ${place}/lib64 ${place}/lib)
      if(EXISTS ${libraries}/libcupti.so.13 AND EXISTS ${libraries}/libcudart.so.13)
        set(${result} ${libraries} PARENT_SCOPE)
        return()
      endif()
    endforeach()
  endforeach()
  message(STATUS "LibTorch: libcupti.so.13 is neither beside it nor in a toolkit; the loader must find it")
endfunction()

if(NOT TARGET piper_torch)
  piper_find_torch(piper_torch_directory)
  message(STATUS "LibTorch: ${piper_torch_directory}")
  set_property(GLOBAL PROPERTY PIPER_TORCH_LIBRARIES_IN ${piper_torch_directory}/lib)
  add_library(piper_torch INTERFACE)
  # -idirafter, not -isystem: torch ships headers of fmt, protobuf and others that must not come before
  # the system's. Headers found this way count as system headers.
  target_compile_options(piper_torch INTERFACE "SHELL:-idirafter ${piper_torch_directory}/include")
  target_compile_definitions(piper_torch INTERFACE AT_PER_OPERATOR_HEADERS)
  target_link_libraries(piper_torch INTERFACE ${piper_torch_directory}/lib/libtorch_cpu.so
    ${piper_torch_directory}/lib/libc10.so "-Wl,-rpath,${piper_torch_directory}/lib")
  piper_find_cuda_of_torch(${piper_torch_directory} piper_cuda_of_torch)
  if(piper_cuda_of_torch)
    # Unlike DT_RUNPATH, DT_RPATH counts for what LibTorch itself loads.
    target_link_options(piper_torch INTERFACE -Wl,--disable-new-dtags "-Wl,-rpath,${piper_cuda_of_torch}")
    set_property(GLOBAL PROPERTY PIPER_TORCH_NEEDS_FROM ${piper_cuda_of_torch})
  endif()
endif()
