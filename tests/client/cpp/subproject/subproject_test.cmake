# Configures the parent next to this file around the project, and around kernels/ alone, and installs it: of theirs
# nothing is installed.
#
#   cmake -D PROJECT_DIR=... -D WORK_DIR=... -D GENERATOR=... -D CXX=... -P subproject_test.cmake

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

foreach(part . kernels)
  file(REMOVE_RECURSE ${WORK_DIR})
  run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${WORK_DIR}/build -G ${GENERATOR}
    -D PROJECT_DIR=${PROJECT_DIR}/${part} -D CMAKE_CXX_COMPILER=${CXX} -D BATCHPLAN_CUDA=OFF)
  run(${CMAKE_COMMAND} --install ${WORK_DIR}/build --prefix ${WORK_DIR}/prefix)
  file(GLOB_RECURSE installed ${WORK_DIR}/prefix/*)
  if(installed)
    message(FATAL_ERROR "${part} installs into the parent's prefix: ${installed}")
  endif()
endforeach()
