// Parses PTX text into kernels. Accepts only what nvcc makes of kernels without functions, in
// one-dimensional grids and blocks; anything else is a ParseError.

#ifndef BATCHPLAN_TESTS_KERNELS_PTX_PARSER_H_
#define BATCHPLAN_TESTS_KERNELS_PTX_PARSER_H_

#include <string_view>

#include "ptx/module.h"
#include "ptx/statements.h"

namespace batchplan::ptx {

// Throws ParseError. If nvcc was called with -lineinfo, instructions know their source lines.
Module Parse(std::string_view text);

}  // namespace batchplan::ptx

#endif  // BATCHPLAN_TESTS_KERNELS_PTX_PARSER_H_
