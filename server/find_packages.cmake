# What the project is built with, of the machine. What is missing is gathered, and told by one error.

# batchplan_find(<name> <Debian packages> [<more of find_package>...])
#
# find_package, but what is not found is added to batchplan_missing, and the Debian packages, separated by spaces, to
# batchplan_missing_packages. A macro: find_package sets variables.
macro(batchplan_find name packages)
  find_package(${name} ${ARGN} QUIET)
  if(NOT ${name}_FOUND)
    batchplan_note_missing(${name} "${packages}")
  endif()
endmacro()

macro(batchplan_note_missing name packages)
  list(APPEND batchplan_missing ${name})
  list(APPEND batchplan_missing_packages ${packages})
endmacro()

# batchplan_end_if_missing(<what deploy/install_packages.sh installs>)
#
# The error also goes to the file that the environment's BATCHPLAN_MISSING names, for who shows it to the user.
function(batchplan_end_if_missing what)
  if(NOT batchplan_missing)
    return()
  endif()
  list(REMOVE_DUPLICATES batchplan_missing_packages)
  list(JOIN batchplan_missing ", " names)
  string(REPLACE ";" " " packages "${batchplan_missing_packages}")
  set(advice "On Debian and Ubuntu: apt-get install ${packages}")
  if(EXISTS ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../deploy/install_packages.sh)
    string(APPEND advice ", or all with deploy/install_packages.sh ${what}")
  endif()
  if(DEFINED ENV{BATCHPLAN_MISSING})
    file(WRITE "$ENV{BATCHPLAN_MISSING}" "batchplan is built with what was not found here: ${names}. ${advice}\n")
  endif()
  message(FATAL_ERROR "Not found: ${names}.\n${advice}.\n"
    "Elsewhere CMAKE_PREFIX_PATH says where they are. Tests are left out by -DBATCHPLAN_TESTS=OFF, "
    "server, C++ client and command by -DBATCHPLAN_SERVICE=OFF.")
endfunction()

# Protobuf and its compiler. From version 22 its own package alone knows which libraries of Abseil it is linked with; older
# ones often come without that package, and CMake's module finds them.
macro(batchplan_find_protobuf)
  find_package(Protobuf CONFIG QUIET)
  if(NOT Protobuf_FOUND)
    batchplan_find(Protobuf "libprotobuf-dev protobuf-compiler")
  endif()
  # That of PATH for one that was built without, such as what wheels link.
  if(Protobuf_FOUND AND NOT TARGET protobuf::protoc)
    find_program(BATCHPLAN_PROTOC protoc)
    mark_as_advanced(BATCHPLAN_PROTOC)
    if(BATCHPLAN_PROTOC)
      add_executable(protobuf::protoc IMPORTED)
      set_target_properties(protobuf::protoc PROPERTIES IMPORTED_LOCATION ${BATCHPLAN_PROTOC})
    else()
      batchplan_note_missing(protoc protobuf-compiler)
    endif()
  endif()
endmacro()

# gRPC with its compiler's plugin. Debian's gRPC ends CMake where the plugin is not installed.
macro(batchplan_find_grpc)
  find_program(BATCHPLAN_GRPC_PLUGIN grpc_cpp_plugin)
  mark_as_advanced(BATCHPLAN_GRPC_PLUGIN)
  if(NOT BATCHPLAN_GRPC_PLUGIN)
    batchplan_note_missing("gRPC with grpc_cpp_plugin" "libgrpc++-dev protobuf-compiler-grpc")
  else()
    batchplan_find(gRPC libgrpc++-dev CONFIG)
  endif()
endmacro()

# hiredis 1 brings a CMake package; hiredis 0.14 is a header and a library.
macro(batchplan_find_hiredis)
  find_package(hiredis CONFIG QUIET)
  if(NOT TARGET hiredis::hiredis)
    find_path(HIREDIS_INCLUDE_DIR hiredis/hiredis.h)
    find_library(HIREDIS_LIBRARY hiredis)
    mark_as_advanced(HIREDIS_INCLUDE_DIR HIREDIS_LIBRARY)
    if(HIREDIS_INCLUDE_DIR AND HIREDIS_LIBRARY)
      add_library(hiredis::hiredis UNKNOWN IMPORTED)
      set_target_properties(hiredis::hiredis PROPERTIES
        IMPORTED_LOCATION ${HIREDIS_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${HIREDIS_INCLUDE_DIR})
    else()
      batchplan_note_missing(hiredis libhiredis-dev)
    endif()
  endif()
endmacro()
