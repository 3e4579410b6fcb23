# Installs the build tree BUILD_DIR, builds the consumers next to this file against it, and runs
# them.
#
#   cmake -D BUILD_DIR=... -D WORK_DIR=... -D GENERATOR=... -D CXX=... [-D CXX_FLAGS=...]
#         [-D LAUNCHER=...] -P package_test.cmake

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${WORK_DIR})
run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${WORK_DIR}/prefix)
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${WORK_DIR}/build -G ${GENERATOR}
  -D CMAKE_PREFIX_PATH=${WORK_DIR}/prefix
  -D CMAKE_CXX_COMPILER=${CXX} -D CMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}
  -D CMAKE_CXX_FLAGS=${CXX_FLAGS})
run(${CMAKE_COMMAND} --build ${WORK_DIR}/build)
run(${WORK_DIR}/build/consumer)
run(${WORK_DIR}/build/worker_consumer)

# Only the contract, the client and the kernels' C API are public.
file(GLOB_RECURSE headers RELATIVE ${WORK_DIR}/prefix/include ${WORK_DIR}/prefix/include/*)
foreach(header IN LISTS headers)
  if(NOT header MATCHES "^batchplan/((kernels/)?[a-z_]+\\.h(pp)?|v1/[a-z_]+((\\.grpc)?\\.pb\\.h|\\.proto))$")
    message(FATAL_ERROR "${header} is installed, but is not a public header")
  endif()
endforeach()
