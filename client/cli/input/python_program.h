// python_program.py, which is part of the program.

#ifndef BATCHPLAN_CLIENT_CLI_INPUT_PYTHON_PROGRAM_H_
#define BATCHPLAN_CLIENT_CLI_INPUT_PYTHON_PROGRAM_H_

#include "absl/strings/string_view.h"

namespace batchplan::cli {

absl::string_view PythonProgram();

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_INPUT_PYTHON_PROGRAM_H_
