#include "client/python/core/common_prefixes.h"

#include <algorithm>
#include <compare>
#include <cstddef>
#include <numeric>
#include <utility>

namespace batchplan::python {
namespace {

// A range of `order_`: sequences that begin alike.
struct Alike {
  size_t begin;
  size_t end;
  // How many of their first tokens are known to be equal.
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
  // A sequence and the token behind the common prefix, by which sequences are divided into
  // branches.
  struct Next {
    // Sequences that end with the prefix come first.
    bool goes_on;
    Token token;
    uint32_t sequence;

    auto operator<=>(const Next&) const = default;
    bool IsLike(const Next& other) const {
      return goes_on && other.goes_on && token == other.token;
    }
  };

  // How many of their first tokens all of these sequences have in common.
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

  // Divides the sequences into branches. The first sequence of each branch shares its prefix with
  // the first of all.
  void Branch(const Alike& alike, std::vector<Alike>& open) {
    const size_t common = CommonOf(alike);
    next_.clear();
    for (size_t i = alike.begin; i < alike.end; ++i) {
      const uint32_t sequence = order_[i];
      const bool goes_on = sequences_[sequence].size() > common;
      const Token token = goes_on ? sequences_[sequence][common] : Token();
      next_.push_back({goes_on, token, sequence});
    }
    // Within a branch sequences ascend, so that its first is its earliest.
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
  // Ascends within each range that is still open.
  std::vector<uint32_t> order_;
  // Used by Branch; kept for its memory.
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
