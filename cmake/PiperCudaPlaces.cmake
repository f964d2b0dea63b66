# Where CUDA's toolkit may be, in the order of search: PIPER_CUDA_DIR (cache variable or environment), CUDA_HOME, the nvcc
# in PATH, /usr/local/cuda, the Python packages of the project's .venv (nvidia/cu13).
include_guard(GLOBAL)

set(PIPER_CUDA_DIR "" CACHE PATH "directory of CUDA's toolkit that holds include/ and lib64/ or lib/ (empty: search)")

function(piper_cuda_places result)
  find_program(nvcc nvcc NO_CACHE)
  cmake_path(GET nvcc PARENT_PATH in_path)
  file(GLOB in_venv ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/nvidia/cu13)
  set(places)
  foreach(directory IN ITEMS "${PIPER_CUDA_DIR}" "$ENV{PIPER_CUDA_DIR}" "$ENV{CUDA_HOME}" "${in_path}/.." /usr/local/cuda
          ${in_venv})
    if(directory AND EXISTS ${directory}/include/cuda_runtime_api.h)
      cmake_path(NORMAL_PATH directory)
      list(APPEND places ${directory})
    endif()
  endforeach()
  set(${result} ${places} PARENT_SCOPE)
endfunction()
