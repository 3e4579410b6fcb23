# Fails unless pack and unpack load and store wide fields 16 bytes at a time and nothing narrower, on
# each of ARCHITECTURES. Reads machine code if the toolkit has cuobjdump, else PTX, whose vector
# accesses become machine instructions one to one.
#
#   cmake -D NVCC=nvcc -D KERNELS=kernels -D OUTPUT=build/vectors_probe -D ARCHITECTURES=80,90
#         [-D CUOBJDUMP=cuobjdump] -P sixteen_bytes.cmake
cmake_minimum_required(VERSION 3.25)

set(compile ${NVCC} -std=c++17 -I${KERNELS} -I${KERNELS}/include
  ${CMAKE_CURRENT_LIST_DIR}/vectors_probe.cu -o ${OUTPUT})
if(CUOBJDUMP)
  set(kernel_begins "Function : ")
  # Generic ones too, by which a compiler gets at what it can't place.
  set(load "LDG?[.][A-Z0-9.]*")
  set(store "STG?[.][A-Z0-9.]*")
  set(wide "[.]128")
else()
  set(kernel_begins ".entry ")
  set(load "ld([.]global)?[.][A-Za-z0-9_:.]*")
  set(store "st([.]global)?[.][A-Za-z0-9_:.]*")
  set(wide "[.](v4[.][a-z]32|v2[.][a-z]64|b128)")
endif()

# Sets `kernels` to what the probe is for `architecture`, one list item a kernel.
function(compile_for architecture)
  if(CUOBJDUMP)
    execute_process(COMMAND ${compile} -cubin -arch=sm_${architecture} COMMAND_ERROR_IS_FATAL ANY)
    execute_process(COMMAND ${CUOBJDUMP} -sass ${OUTPUT}
      OUTPUT_VARIABLE code COMMAND_ERROR_IS_FATAL ANY)
  else()
    execute_process(COMMAND ${compile} -ptx -arch=compute_${architecture} COMMAND_ERROR_IS_FATAL ANY)
    file(READ ${OUTPUT} code)
    string(REGEX REPLACE "ld[.]param[^\n]*" "" code "${code}")
  endif()
  # What means something in CMake's lists means nothing here.
  string(REGEX REPLACE "[][;]" " " code "${code}")
  string(REPLACE "${kernel_begins}" ";" found "${code}")
  list(POP_FRONT found)
  set(kernels "${found}" PARENT_SCOPE)
endfunction()

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

string(REPLACE "," ";" ARCHITECTURES "${ARCHITECTURES}")
foreach(architecture IN LISTS ARCHITECTURES)
  compile_for(${architecture})
  foreach(kind load store)
    find_accesses(VectorsProbe "${${kind}}")
    message(STATUS "sm_${architecture}, each ${kind}: ${accesses}")
    if(NOT accesses OR narrow)
      message(SEND_ERROR "On sm_${architecture} wide fields have no ${kind}, or narrower ones than 16 bytes: ${narrow}")
    endif()
    find_accesses(NarrowProbe "${${kind}}")
    if(NOT narrow)
      message(SEND_ERROR "8-byte words were taken for 16-byte ones: this test sees nothing")
    endif()
  endforeach()
endforeach()
