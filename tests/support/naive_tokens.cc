#include "tests/support/naive_tokens.h"

#include <algorithm>
#include <cstddef>

namespace batchplan::testing {

std::vector<std::vector<Token>> NaiveTokens(const Manifest& manifest) {
  std::vector<std::vector<Token>> tokens;
  for (size_t i = 0; i < manifest.lengths.size(); ++i) {
    uint32_t shared = manifest.shared_prefixes.empty() ? 0 : manifest.shared_prefixes[i];
    size_t with = 0;
    if (shared > 0 && !manifest.shared_with.empty()) {
      with = manifest.shared_with[i];
    } else if (shared > 0) {
      while (manifest.group_ids[with] != manifest.group_ids[i]) ++with;
      if (with == i) shared = 0;
    }
    std::vector<Token> own;
    if (shared > 0) own.assign(tokens[with].begin(), tokens[with].begin() + shared);
    for (uint32_t depth = shared; depth < manifest.lengths[i]; ++depth) {
      own.push_back(uint64_t{i} << 32 | depth);
    }
    tokens.push_back(own);
  }
  return tokens;
}

uint32_t NaiveCommon(std::span<const Token> a, std::span<const Token> b) {
  uint32_t common = 0;
  while (common < std::min(a.size(), b.size()) && a[common] == b[common]) ++common;
  return common;
}

bool StandsBefore(std::span<const std::vector<Token>> tokens, uint32_t a, uint32_t b) {
  const uint32_t common = NaiveCommon(tokens[a], tokens[b]);
  const bool a_ends = tokens[a].size() == common;
  const bool b_ends = tokens[b].size() == common;
  if (a_ends && b_ends) return a < b;
  return a_ends || (!b_ends && tokens[a][common] < tokens[b][common]);
}

}  // namespace batchplan::testing
