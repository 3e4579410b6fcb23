// Loads: what sequences bring to a micro-batch beside tokens, and what of it a request limits.

#ifndef BATCHPLAN_SERVER_PLANNER_REQUEST_LOADS_H_
#define BATCHPLAN_SERVER_PLANNER_REQUEST_LOADS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"

namespace batchplan {

// A sum of loads is within a limit if it is at most this many times the limit, as sums of doubles
// depend on their order.
inline constexpr double kLimitSlack = 1 + 1e-9;

// As errors name a load.
std::string QuotedLoad(absl::string_view name);

// InvalidArgument, naming field, value and limit, if the manifest's loads, items or kinds are not
// what the contract says, or if options name a load that the manifest does not have, name one
// twice, or ask for what loads can't be combined with.
absl::Status CheckLoads(const Manifest& manifest, const PlanOptions& options);

// Deals values to `ranks` ranks: the largest first, of equal ones the earlier, each to the rank
// that has least, of equal ones the lowest. Returns the rank of each and adds to `sums`, one a
// rank. O(n log n).
std::vector<uint32_t> Deal(std::span<const double> values, std::span<double> sums);

// The loads of a manifest that CheckLoads has passed, which they view, each with one value a
// sequence: its own, or the sum of its items in their order.
class Loads {
 public:
  Loads() = default;
  explicit Loads(const Manifest& manifest);

  bool empty() const { return loads_.empty(); }
  size_t size() const { return loads_.size(); }
  absl::string_view name(size_t load) const { return loads_[load].name; }
  // The number of the load of that name, which there is.
  size_t NumberOf(absl::string_view name) const;
  // By position in the manifest.
  std::span<const double> values(size_t load) const {
    const Values& own = loads_[load];
    return own.sums.empty() ? own.given : std::span(own.sums);
  }
  double Of(size_t load, SequenceIndex sequence) const { return values(load)[sequence.value()]; }

  // What must be at one place: all of a sequence's load; or where it is dealt to so many ranks,
  // what one of them has of the sequence's items alone. 0 ranks: it is not dealt.
  double LargestOf(size_t load, SequenceIndex sequence, uint32_t dealt_to) const;

  bool has_items(size_t load) const { return !loads_[load].item_offsets.empty(); }
  // Only with items. The number of a sequence's first item, and its items.
  size_t FirstItem(size_t load, SequenceIndex sequence) const {
    return loads_[load].item_offsets[sequence.value()];
  }
  std::span<const double> ItemsOf(size_t load, SequenceIndex sequence) const {
    const size_t first = FirstItem(load, sequence);
    const size_t end = loads_[load].item_offsets[sequence.value() + size_t{1}];
    return loads_[load].items.subspan(first, end - first);
  }
  // Of all sequences.
  size_t item_count(size_t load) const { return loads_[load].items.size(); }

 private:
  struct Values {
    absl::string_view name;
    std::span<const double> given;
    // With items alone.
    std::vector<double> sums;
    std::span<const double> items;
    // By sequence, and the number of all.
    std::vector<size_t> item_offsets;
  };

  std::vector<Values> loads_;
};

const Loads& NoLoads();

// The loads of some sequences of a manifest, ascending, as if these were all.
class LoadsTaken {
 public:
  LoadsTaken(const Manifest& manifest, std::span<const SequenceIndex> taken);

  // Views this and the manifest.
  const std::vector<Load>& loads() const { return loads_; }
  const std::vector<LoadItems>& items() const { return items_; }
  // What `of_taken` says of the items of a load, with one entry for each item of the manifest: 0 of
  // those that are not taken.
  std::vector<uint32_t> OfAll(absl::string_view load, std::span<const uint32_t> of_taken) const;

 private:
  struct Items {
    std::vector<uint32_t> sequences;
    std::vector<double> values;
    // Of each in the manifest, which has `all`.
    std::vector<size_t> numbers;
    size_t all = 0;
  };

  std::vector<std::vector<double>> values_;
  std::vector<Items> taken_items_;
  std::vector<Load> loads_;
  std::vector<LoadItems> items_;
};

// Whether what the model says of the load has it dealt.
bool IsDealt(const CostModel& model, absl::string_view load);

// The first limit, over all passes, that a sequence alone exceeds: of a dealt load, alone in its
// slot.
struct ExceededLimit {
  size_t pass = 0;
  size_t load = 0;
  double value = 0;
  double limit = 0;
};
std::optional<ExceededLimit> LimitExceededBy(const Loads& loads, const PlanOptions& options,
                                             SequenceIndex sequence);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_PLANNER_REQUEST_LOADS_H_
