# Makes C++ source that holds a program in Python.
#
#   cmake -DPROGRAM=<python_program.py> -DOUTPUT=<python_program.cc> -P embed_program.cmake
file(READ "${PROGRAM}" program)
file(WRITE "${OUTPUT}" "#include \"client/cli/input/python_program.h\"

absl::string_view batchplan::cli::PythonProgram() { return R\"PYTHON(${program})PYTHON\"; }
")
