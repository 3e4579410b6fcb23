// One instruction of PTX, from text.

#ifndef BATCHPLAN_TESTS_KERNELS_PTX_DECODER_H_
#define BATCHPLAN_TESTS_KERNELS_PTX_DECODER_H_

#include <string>

#include "ptx/module.h"
#include "ptx/names.h"
#include "ptx/statements.h"

namespace batchplan::ptx {

struct Decoded {
  Instruction instruction;
  // The target of a branch, which is resolved at the end of the kernel.
  std::string label;
};

// Throws ParseError with the statement if it can't be interpreted: nothing is skipped silently.
Decoded Decode(const Statement& statement, Names& names);

}  // namespace batchplan::ptx

#endif  // BATCHPLAN_TESTS_KERNELS_PTX_DECODER_H_
