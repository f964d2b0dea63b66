# Finds CUDA's toolkit and makes the target `piper_cudart`, its runtime library, which runtime/hal/cuda and
# runtime/kernels/cuda link; PIPER_NVCC is its compiler. Only with PIPER_WITH_CUDA.
#
# Search order: PIPER_CUDA_DIR (cache variable or environment), CUDA_HOME, the nvcc in PATH, /usr/local/cuda, the Python
# packages of the project's .venv (nvidia/cu13).

set(PIPER_CUDA_DIR "" CACHE PATH "directory of CUDA's toolkit that holds include/ and lib64/ or lib/ (empty: search)")

function(piper_find_cuda)
  find_program(nvcc nvcc NO_CACHE)
  cmake_path(GET nvcc PARENT_PATH in_path)
  file(GLOB in_venv ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/nvidia/cu13)
  foreach(directory IN ITEMS "${PIPER_CUDA_DIR}" "$ENV{PIPER_CUDA_DIR}" "$ENV{CUDA_HOME}" "${in_path}/.." /usr/local/cuda
          ${in_venv})
    if(NOT directory OR NOT EXISTS ${directory}/include/cuda_runtime_api.h)
      continue()
    endif()
    find_library(library NAMES cudart libcudart.so.13 PATHS ${directory}/lib64 ${directory}/lib NO_DEFAULT_PATH NO_CACHE)
    if(library)
      cmake_path(NORMAL_PATH directory)
      message(STATUS "CUDA's toolkit: ${directory}")
      add_library(piper_cudart SHARED IMPORTED GLOBAL)
      set_target_properties(piper_cudart PROPERTIES IMPORTED_LOCATION ${library}
        INTERFACE_INCLUDE_DIRECTORIES ${directory}/include)
      find_program(compiler nvcc PATHS ${directory}/bin NO_DEFAULT_PATH NO_CACHE)
      set_property(GLOBAL PROPERTY PIPER_NVCC ${compiler})
      return()
    endif()
  endforeach()
  message(FATAL_ERROR "PIPER_WITH_CUDA: there is no CUDA toolkit in PIPER_CUDA_DIR, CUDA_HOME, PATH, /usr/local/cuda or .venv")
endfunction()

if(NOT TARGET piper_cudart)
  piper_find_cuda()
endif()
get_property(PIPER_NVCC GLOBAL PROPERTY PIPER_NVCC)
if(NOT PIPER_NVCC)
  message(FATAL_ERROR "PIPER_WITH_CUDA: CUDA's toolkit has no bin/nvcc")
endif()
