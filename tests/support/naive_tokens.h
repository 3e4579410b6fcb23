// Shared prefixes by definition, token by token: what trees and intervals are held against.

#ifndef BATCHPLAN_TESTS_SUPPORT_NAIVE_TOKENS_H_
#define BATCHPLAN_TESTS_SUPPORT_NAIVE_TOKENS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/request/manifest.h"

namespace batchplan::testing {

// A token: in its upper half the sequence that introduced it, in its lower half its depth. Two
// sequences share a token exactly where both have it.
using Token = uint64_t;
inline uint32_t DepthOf(Token token) { return static_cast<uint32_t>(token); }

// Of each sequence of a manifest with shared prefixes, or without. As long as all lengths together.
std::vector<std::vector<Token>> NaiveTokens(const Manifest& manifest);

// The number of first tokens in which two sequences agree.
uint32_t NaiveCommon(std::span<const Token> a, std::span<const Token> b);

// The order in a row, of sequences by their tokens: what shares most stands together, prefixes
// stand before what extends them, and otherwise the one whose next token was there first.
bool StandsBefore(std::span<const std::vector<Token>> tokens, uint32_t a, uint32_t b);

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SUPPORT_NAIVE_TOKENS_H_
