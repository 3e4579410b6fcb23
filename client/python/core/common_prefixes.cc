#include "client/python/core/common_prefixes.h"

#include <algorithm>
#include <compare>
#include <cstddef>
#include <numeric>
#include <utility>

namespace batchplan::python {
namespace {

// Sequences that are known to begin alike, in a part of `order_`.
struct Alike {
  size_t begin;
  size_t end;
  // That they have in common, at least.
  size_t tokens;
};

template <typename Token>
class Finder {
 public:
  Finder(std::span<const std::span<const Token>> sequences, uint32_t minimum)
      : sequences_(sequences), minimum_(minimum) {
    found_.shared_prefixes.assign(sequences.size(), 0);
    found_.shared_with.assign(sequences.size(), 0);
    order_.resize(sequences.size());
    std::iota(order_.begin(), order_.end(), 0u);
  }

  CommonPrefixes Find() {
    std::vector<Alike> open = {{0, order_.size(), 0}};
    while (!open.empty()) {
      const Alike alike = open.back();
      open.pop_back();
      if (alike.end - alike.begin > 1) Branch(alike, open);
    }
    return std::move(found_);
  }

 private:
  // A sequence where those that begin like it go on in different ways: by the next token.
  struct Next {
    // Those that end here come first.
    bool goes_on;
    Token token;
    uint32_t sequence;

    auto operator<=>(const Next&) const = default;
    bool IsLike(const Next& other) const {
      return goes_on && other.goes_on && token == other.token;
    }
  };

  // What all of them have in common.
  size_t CommonOf(const Alike& alike) const {
    const std::span<const Token> first = sequences_[order_[alike.begin]];
    size_t common = first.size();
    for (size_t i = alike.begin + 1; i < alike.end && common > alike.tokens; ++i) {
      const std::span<const Token> other = sequences_[order_[i]];
      const Token* const end = first.data() + std::min(common, other.size());
      const Token* const begin = first.data() + alike.tokens;
      common = static_cast<size_t>(std::mismatch(begin, end, other.data() + alike.tokens).first -
                                   first.data());
    }
    return common;
  }

  // Relates the first of each branch to the first of all, and opens the branches.
  void Branch(const Alike& alike, std::vector<Alike>& open) {
    const size_t common = CommonOf(alike);
    next_.clear();
    for (size_t i = alike.begin; i < alike.end; ++i) {
      const uint32_t sequence = order_[i];
      const bool goes_on = sequences_[sequence].size() > common;
      const Token token = goes_on ? sequences_[sequence][common] : Token();
      next_.push_back({goes_on, token, sequence});
    }
    // Sequences of a branch ascend, so that its first is its earliest.
    std::ranges::sort(next_);
    const uint32_t earliest = order_[alike.begin];
    for (size_t i = 0; i < next_.size();) {
      size_t end = i + 1;
      while (end < next_.size() && next_[i].IsLike(next_[end])) ++end;
      const uint32_t first = next_[i].sequence;
      if (first != earliest && common >= minimum_) {
        found_.shared_prefixes[first] = static_cast<uint32_t>(common);
        found_.shared_with[first] = earliest;
      }
      for (size_t k = i; k < end; ++k) order_[alike.begin + k] = next_[k].sequence;
      open.push_back({alike.begin + i, alike.begin + end, common + 1});
      i = end;
    }
  }

  const std::span<const std::span<const Token>> sequences_;
  const uint32_t minimum_;
  CommonPrefixes found_;
  // In every part that is open, sequences ascend.
  std::vector<uint32_t> order_;
  // Of Branch.
  std::vector<Next> next_;
};

}  // namespace

CommonPrefixes FindCommonPrefixes(std::span<const std::span<const int32_t>> sequences,
                                  uint32_t minimum) {
  return Finder<int32_t>(sequences, minimum).Find();
}

CommonPrefixes FindCommonPrefixes(std::span<const std::span<const int64_t>> sequences,
                                  uint32_t minimum) {
  return Finder<int64_t>(sequences, minimum).Find();
}

}  // namespace batchplan::python
