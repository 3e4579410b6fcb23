// Loads: what sequences add to a micro-batch beside tokens, and the request's limits on them.

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

// InvalidArgument, naming field, value and limit, if the manifest's loads, items or kinds break the
// contract, or if options name a load that the manifest does not have, name one twice, or can't be
// combined with loads.
absl::Status CheckLoads(const Manifest& manifest, const PlanOptions& options);

// Deals values to `ranks` ranks: the largest first, of equal ones the earlier, each to the rank
// that has least, of equal ones the lowest. Returns the rank of each and adds to `sums`, one a
// rank. O(n log n).
std::vector<uint32_t> Deal(std::span<const double> values, std::span<double> sums);

// The loads of a manifest that CheckLoads has passed, each with one value a sequence: the given
// one, or the sum of its items in their order. Views the manifest.
class Loads {
 public:
  Loads() = default;
  explicit Loads(const Manifest& manifest);

  bool empty() const { return loads_.empty(); }
  size_t size() const { return loads_.size(); }
  absl::string_view name(size_t load) const { return loads_[load].name; }
  // The number of the load of that name. REQUIRES: there is one.
  size_t NumberOf(absl::string_view name) const;
  // By position in the manifest.
  std::span<const double> values(size_t load) const {
    const Values& own = loads_[load];
    return own.sums.empty() ? own.given : std::span(own.sums);
  }
  double Of(size_t load, SequenceIndex sequence) const { return values(load)[sequence.value()]; }

  // The part of a sequence's load that one rank must compute: all of it, or if it is dealt to
  // `dealt_to` ranks (0: it is not), the largest part of a rank that gets this sequence's items
  // alone.
  double LargestOf(size_t load, SequenceIndex sequence, uint32_t dealt_to) const;

  bool has_items(size_t load) const { return !loads_[load].item_offsets.empty(); }
  // The number of a sequence's first item, and its items. REQUIRES: has_items.
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
    // Set only with items.
    std::vector<double> sums;
    std::span<const double> items;
    // By sequence, with the number of all items at the end.
    std::vector<size_t> item_offsets;
  };

  std::vector<Values> loads_;
};

const Loads& NoLoads();

// The loads of some sequences of a manifest, as if these, which ascend, were all.
class LoadsTaken {
 public:
  LoadsTaken(const Manifest& manifest, std::span<const SequenceIndex> taken);

  // Views this and the manifest.
  const std::vector<Load>& loads() const { return loads_; }
  const std::vector<LoadItems>& items() const { return items_; }
  // Spreads `of_taken`, one entry for each taken item of the load, to one entry for each item of
  // the manifest: 0 for items that are not taken.
  std::vector<uint32_t> OfAll(absl::string_view load, std::span<const uint32_t> of_taken) const;

 private:
  struct Items {
    std::vector<uint32_t> sequences;
    std::vector<double> values;
    // The number of each item in the manifest, which has `all` items.
    std::vector<size_t> numbers;
    size_t all = 0;
  };

  std::vector<std::vector<double>> values_;
  std::vector<Items> taken_items_;
  std::vector<Load> loads_;
  std::vector<LoadItems> items_;
};

// Whether the cost model deals the load.
bool IsDealt(const CostModel& model, absl::string_view load);

// The first limit, over all passes, that a sequence exceeds by itself; for a dealt load, alone in
// its slot.
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
