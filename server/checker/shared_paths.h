// Shared prefixes as intervals of tokens: the checker's own reading of the manifest.

#ifndef BATCHPLAN_SERVER_CHECKER_SHARED_PATHS_H_
#define BATCHPLAN_SERVER_CHECKER_SHARED_PATHS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"

namespace batchplan::checker {

// A token is the sequence that introduced it, and its depth; a sequence is the path of its tokens.
// Sequence i shares its first shared_prefixes[i] tokens with the path of shared_with[i] and
// introduces the others. A path could have as many intervals as there are sequences, if each shares
// almost all with the one before. So the tokens along the path that most sequences follow are one
// interval: a strand. Paths then have O(log n) intervals (D. D. Sleator, R. E. Tarjan, "A data
// structure for dynamic trees", 1983: heavy paths).
class SharedPaths {
 public:
  // Tokens from .. to - 1 of the strand of this number, below strands().
  struct Interval {
    size_t strand;
    uint32_t from;
    uint32_t to;

    friend bool operator==(const Interval&, const Interval&) = default;
  };

  // Internal if the manifest's prefixes are invalid, or can't be combined with `options`. Linear
  // memory, O(n log n).
  static absl::StatusOr<SharedPaths> Create(const Manifest& manifest, const PlanOptions& options);

  // From now on sequence k is the one at the k-th of these positions in the manifest.
  void Take(std::vector<uint32_t> positions) { positions_ = std::move(positions); }

  // Whether some two sequences have a token in common.
  bool SomeShare() const;

  // The intervals of the first `length` tokens of a sequence, from its first token on; `length` is
  // at most its own. All paths enter a strand at the same token.
  void Read(uint32_t sequence, uint32_t length, std::vector<Interval>& path) const;

  size_t strands() const { return 2 * begins_.size(); }

 private:
  SharedPaths() = default;

  // Who introduced token depth - 1 of a sequence of at least `depth` tokens.
  uint32_t OwnerOf(uint32_t sequence, uint32_t depth) const;
  void FindOwners(std::span<const uint32_t> prefixes, std::span<const uint32_t> with);
  void FindStrands();

  std::vector<uint32_t> lengths_;
  std::vector<uint32_t> positions_;
  // Where the tokens that a sequence introduces begin, and who introduced the token before; itself
  // if there is none.
  std::vector<uint32_t> begins_;
  std::vector<uint32_t> owners_;
  // An owner further up, or the owner.
  std::vector<uint32_t> jumps_;
  // The sequence with which the strand of a sequence goes on, or the sequence itself; and the first
  // of its strand.
  std::vector<uint32_t> heirs_;
  std::vector<uint32_t> firsts_;
};

// The number of tokens in which two paths agree.
uint32_t InCommon(std::span<const SharedPaths::Interval> a,
                  std::span<const SharedPaths::Interval> b);

// The union of paths: in each strand the longest part of any path.
class PathUnion {
 public:
  explicit PathUnion(const SharedPaths& paths)
      : reached_(paths.strands()), added_(reached_.size()) {}

  void Clear() {
    ++round_;
    tokens_ = 0;
    squares_ = 0;
  }
  void Add(std::span<const SharedPaths::Interval> path);

  uint64_t tokens() const { return tokens_; }
  // Summed over intervals from a to b: b^2 - a^2.
  double squares() const { return squares_; }

 private:
  // By strand, how far it reaches, and in which round.
  std::vector<uint32_t> reached_;
  std::vector<uint64_t> added_;
  uint64_t round_ = 1;
  uint64_t tokens_ = 0;
  double squares_ = 0;
};

}  // namespace batchplan::checker

#endif  // BATCHPLAN_SERVER_CHECKER_SHARED_PATHS_H_
