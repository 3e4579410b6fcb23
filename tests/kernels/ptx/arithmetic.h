// The instructions that only read and write registers, by their whole name ("add.s32"). What is not
// in the table is not interpreted: an instruction or modifier that nvcc comes to use is added
// there.

#ifndef BATCHPLAN_TESTS_KERNELS_PTX_ARITHMETIC_H_
#define BATCHPLAN_TESTS_KERNELS_PTX_ARITHMETIC_H_

#include <string>

#include "ptx/module.h"

namespace batchplan::ptx {

struct Operation {
  Arithmetic function = nullptr;
  int sources = 0;
  bool divides = false;
};

// nullptr: unknown.
const Operation* FindOperation(const std::string& name);

// `mov` between a register and a vector of two: the two halves of 32 or 64 bits.
extern const Arithmetic kPack32;
extern const Arithmetic kPack64;
extern const Arithmetic kUnpack32;
extern const Arithmetic kUnpack64;

}  // namespace batchplan::ptx

#endif  // BATCHPLAN_TESTS_KERNELS_PTX_ARITHMETIC_H_
