# Fails unless the aligned path of pack and unpack loads and stores 16 bytes at a time and nothing
# narrower. Reads machine code if the toolkit has cuobjdump, else PTX, whose vector accesses
# become machine instructions one to one.
#
#   cmake -D NVCC=nvcc -D KERNELS=kernels -D OUTPUT=build/aligned_probe [-D CUOBJDUMP=cuobjdump]
#         -P sixteen_bytes.cmake
cmake_minimum_required(VERSION 3.25)

set(compile ${NVCC} -std=c++17 -I${KERNELS} -I${KERNELS}/include
  ${CMAKE_CURRENT_LIST_DIR}/aligned_probe.cu -o ${OUTPUT})
if(CUOBJDUMP)
  execute_process(COMMAND ${compile} -cubin -arch=sm_90 COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${CUOBJDUMP} -sass ${OUTPUT}
    OUTPUT_VARIABLE code COMMAND_ERROR_IS_FATAL ANY)
  set(kernel_begins "Function : ")
  set(load "LDG[A-Z0-9.]*")
  set(store "STG[A-Z0-9.]*")
  set(wide "[.]128")
else()
  execute_process(COMMAND ${compile} -ptx -arch=compute_90 COMMAND_ERROR_IS_FATAL ANY)
  file(READ ${OUTPUT} code)
  set(kernel_begins ".entry ")
  set(load "ld[.]global[A-Za-z0-9_:.]*")
  set(store "st[.]global[A-Za-z0-9_:.]*")
  set(wide "[.](v4[.][a-z]32|v2[.][a-z]64|b128)")
endif()

# One list item a kernel; what means something in CMake's lists means nothing here.
string(REGEX REPLACE "[][;]" " " code "${code}")
string(REPLACE "${kernel_begins}" ";" kernels "${code}")
list(POP_FRONT kernels)

# Sets `accesses` to the loads or stores of the kernels called `name`, and `narrow` to those among
# them that are not of 16 bytes.
function(find_accesses name pattern)
  set(found)
  foreach(kernel IN LISTS kernels)
    if(kernel MATCHES "^[^ \n(]*${name}")
      string(REGEX MATCHALL "${pattern}" accesses "${kernel}")
      list(APPEND found ${accesses})
    endif()
  endforeach()
  set(accesses ${found} PARENT_SCOPE)
  list(FILTER found EXCLUDE REGEX "${wide}")
  set(narrow ${found} PARENT_SCOPE)
endfunction()

foreach(kind load store)
  find_accesses(AlignedProbe "${${kind}}")
  message(STATUS "each ${kind} of the aligned path: ${accesses}")
  if(NOT accesses OR narrow)
    message(SEND_ERROR "The aligned path has no ${kind}, or narrower ones than 16 bytes: ${narrow}")
  endif()
  find_accesses(NarrowProbe "${${kind}}")
  if(NOT narrow)
    message(SEND_ERROR "8-byte words were taken for 16-byte ones: this test sees nothing")
  endif()
endforeach()
