# Finds CUDA's toolkit and makes the target `piper_cudart`, its runtime library, which runtime/hal/cuda and
# runtime/kernels/cuda link; PIPER_NVCC is its compiler. Only with PIPER_WITH_CUDA.
include(${CMAKE_CURRENT_LIST_DIR}/PiperCudaPlaces.cmake)

function(piper_find_cuda)
  piper_cuda_places(places)
  foreach(directory IN LISTS places)
    find_library(library NAMES cudart libcudart.so.13 PATHS ${directory}/lib64 ${directory}/lib NO_DEFAULT_PATH NO_CACHE)
    if(library)
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
