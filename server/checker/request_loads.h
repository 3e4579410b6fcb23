// The loads of a request: the checker's own reading of the manifest, of what loads cost and of how
// much micro-batches may have of them.

#ifndef BATCHPLAN_SERVER_CHECKER_REQUEST_LOADS_H_
#define BATCHPLAN_SERVER_CHECKER_REQUEST_LOADS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/planner/request/manifest.h"
#include "server/planner/request/options.h"

namespace batchplan::checker {

struct LoadItem {
  // Its place among all items of the load in the manifest.
  size_t number = 0;
  uint32_t sequence = 0;
  double value = 0;
};

// One of manifest.loads, and what the cost model says of it.
struct RequestLoad {
  absl::string_view name;
  // By sequence.
  std::vector<double> values;
  // Of the sequences that there are, in the order of the manifest, which has `item_count`.
  bool has_items = false;
  std::vector<LoadItem> items = {};
  size_t item_count = 0;
  // What a unit costs all ranks of a micro-batch together; 0 if the model does not name the load.
  double per_unit = 0;
  // Computed in a phase of its own, and by ranks to which its items are dealt.
  bool has_phase = false;
  bool dealt = false;
};

struct RequestLimit {
  // In RequestLoads::all().
  size_t load = 0;
  double most = 0;

  // Sums of doubles depend on their order.
  bool IsExceededBy(double value) const { return value > most * (1 + 1e-9); }
};

// A view of the manifest's names.
class RequestLoads {
 public:
  RequestLoads() = default;

  // Internal if the manifest says of loads, items or kinds what it may not, or if `options` name
  // loads that there are not or do not go with them. Linear but for the few loads.
  static absl::StatusOr<RequestLoads> Create(const Manifest& manifest, const PlanOptions& options);

  // From now on sequence k is the one at the k-th of these positions in the manifest, ascending.
  void Take(std::span<const uint32_t> positions);

  const std::vector<RequestLoad>& all() const { return all_; }
  // The numbers of dealt loads, in the order of the cost model.
  std::span<const size_t> dealt() const { return dealt_; }
  // Of a pass of the request.
  std::span<const RequestLimit> LimitsOf(size_t pass) const {
    return pass < limits_.size() ? std::span(limits_[pass]) : std::span<const RequestLimit>();
  }

  // Whether a sequence by itself has more of a load than that limit allows: of a dealt load, if
  // its items are dealt alone.
  bool Exceeds(const RequestLimit& limit, uint32_t sequence) const;
  // The same of any limit of a pass, or of any pass.
  // The same of a limit on a dealt load, of any pass.
  bool ExceedsDealt(uint32_t sequence) const;
  bool ExceedsOne(size_t pass, uint32_t sequence) const;
  bool ExceedsOne(uint32_t sequence) const;

  // What all loads of a sequence cost one of the `ranks` ranks of its micro-batch, if ranks share
  // them evenly.
  double CostOf(uint32_t sequence, double ranks) const;

 private:
  absl::Status ReadLoads(const Manifest& manifest);
  absl::Status ReadItems(const Manifest& manifest);
  absl::Status ReadCosts(const PlanOptions& options);
  absl::Status ReadLimits(const PlanOptions& options);
  // The number of the load of that name; how many there are, if there is none.
  size_t NumberOf(absl::string_view name) const;
  // By load, what of each sequence is on one rank at least: of a dealt load what the rank with most
  // has of its items, else all of it.
  void FindInseparable();

  std::vector<RequestLoad> all_;
  std::vector<size_t> dealt_;
  uint32_t data_parallel_ = 1;
  std::vector<std::vector<RequestLimit>> limits_;
  std::vector<std::vector<double>> inseparable_;
};

}  // namespace batchplan::checker

#endif  // BATCHPLAN_SERVER_CHECKER_REQUEST_LOADS_H_
