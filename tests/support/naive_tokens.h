// Shared prefixes by definition, token by token; trees and intervals are tested against them.

#ifndef BATCHPLAN_TESTS_SUPPORT_NAIVE_TOKENS_H_
#define BATCHPLAN_TESTS_SUPPORT_NAIVE_TOKENS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "server/planner/request/manifest.h"

namespace batchplan::testing {

// A token: its upper half is the sequence that introduced it, its lower half its depth. Two
// sequences share a token exactly if both have it.
using Token = uint64_t;
inline uint32_t DepthOf(Token token) { return static_cast<uint32_t>(token); }

// The tokens of each sequence, with or without shared prefixes. Needs memory for all lengths
// together.
std::vector<std::vector<Token>> NaiveTokens(const Manifest& manifest);

// In how many first tokens two sequences agree.
uint32_t NaiveCommon(std::span<const Token> a, std::span<const Token> b);

// The order of sequences in a row: those that share most are neighbours, prefixes come before their
// extensions, and otherwise the sequence whose next token was introduced first.
bool StandsBefore(std::span<const std::vector<Token>> tokens, uint32_t a, uint32_t b);

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SUPPORT_NAIVE_TOKENS_H_
