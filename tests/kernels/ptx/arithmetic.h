// Instructions that only read and write registers, by their whole name ("add.s32"). Others are not
// interpreted: add here what nvcc comes to use.

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

// nullptr if unknown.
const Operation* FindOperation(const std::string& name);

// `mov` between a register and a vector of two, its halves of 32 or 64 bits.
extern const Arithmetic kPack32;
extern const Arithmetic kPack64;
extern const Arithmetic kUnpack32;
extern const Arithmetic kUnpack64;

}  // namespace batchplan::ptx

#endif  // BATCHPLAN_TESTS_KERNELS_PTX_ARITHMETIC_H_
