// PTX text to kernels. Only what nvcc makes of kernels without functions of their own, in grids and
// blocks of one dimension: what else stands there is a ParseError.

#ifndef BATCHPLAN_TESTS_KERNELS_PTX_PARSER_H_
#define BATCHPLAN_TESTS_KERNELS_PTX_PARSER_H_

#include <string_view>

#include "ptx/module.h"
#include "ptx/statements.h"

namespace batchplan::ptx {

// Throws ParseError. Of text that nvcc made with -lineinfo, instructions know their source lines.
Module Parse(std::string_view text);

}  // namespace batchplan::ptx

#endif  // BATCHPLAN_TESTS_KERNELS_PTX_PARSER_H_
