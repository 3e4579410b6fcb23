# Prints the registers and shared memory of every CUDA kernel, and fails if one spills registers or
# keeps anything else in local memory.
#
#   cmake -D NVCC=nvcc -D KERNELS=kernels -D OUTPUT=build/registers.fatbin -D ARCHITECTURES=80,90
#         [-D CXXFILT=c++filt] -P registers.cmake
cmake_minimum_required(VERSION 3.25)

string(REPLACE "," ";" architectures "${ARCHITECTURES}")
file(GLOB sources ${KERNELS}/src/cuda/*.cu)
set(targets)
foreach(architecture ${architectures})
  list(APPEND targets -gencode arch=compute_${architecture},code=sm_${architecture})
endforeach()

set(num_kernels 0)
foreach(source ${sources})
  execute_process(
    COMMAND ${NVCC} -std=c++17 -DBATCHPLAN_LEAST_PTX=0 -I${KERNELS} -I${KERNELS}/include ${targets} -fatbin -Xptxas=-v
      ${source} -o ${OUTPUT}
    OUTPUT_VARIABLE report ERROR_VARIABLE report RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "nvcc failed on ${source}:\n${report}")
  endif()
  string(REPLACE ";" " " report "${report}")
  string(REPLACE "Compiling entry function '" ";" kernels "${report}")
  list(POP_FRONT kernels)
  foreach(kernel IN LISTS kernels)
    if(NOT kernel MATCHES "^([^']*)' for '(sm_[0-9a-z]*)'.* ([0-9]+) bytes stack frame, ([0-9]+) bytes spill stores, ([0-9]+) bytes spill loads.*Used ([0-9]+) registers(.*)")
      message(FATAL_ERROR "ptxas says something else than expected of a kernel:\n${kernel}")
    endif()
    set(name ${CMAKE_MATCH_1})
    set(architecture ${CMAKE_MATCH_2})
    set(local_bytes ${CMAKE_MATCH_3} ${CMAKE_MATCH_4} ${CMAKE_MATCH_5})
    set(registers ${CMAKE_MATCH_6})
    set(shared 0)
    if(CMAKE_MATCH_7 MATCHES "([0-9]+) bytes smem")
      set(shared ${CMAKE_MATCH_1})
    endif()
    if(CXXFILT)
      execute_process(COMMAND ${CXXFILT} ${name}
        OUTPUT_VARIABLE name OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
      string(REGEX REPLACE "batchplan::kernels::(cuda::)?([(]anonymous namespace[)]::)?" "" name "${name}")
      string(REGEX REPLACE "^void |[(].*" "" name "${name}")
    endif()
    message(STATUS "${architecture} ${name}: ${registers} registers, ${shared} bytes of shared memory")
    if(NOT local_bytes STREQUAL "0;0;0")
      message(SEND_ERROR "${name} on ${architecture}: bytes of stack frame, spill stores, spill loads: ${local_bytes}")
    endif()
    math(EXPR num_kernels "${num_kernels} + 1")
  endforeach()
endforeach()
if(num_kernels EQUAL 0)
  message(FATAL_ERROR "No kernel was found in ${KERNELS}/src/cuda")
endif()
