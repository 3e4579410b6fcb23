#include "server/planner/pass/bundles.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace batchplan {
namespace {

// A list that is being made.
struct Bundle {
  std::vector<size_t> parts;
  uint64_t sequences = 0;
};

// The largest fraction that each part needs of any limit.
std::vector<double> RoomOfParts(const Pass& pass, const SequenceLists& parts) {
  std::vector<double> rooms;
  rooms.reserve(parts.size());
  for (size_t part = 0; part < parts.size(); ++part) {
    double tokens = 0;
    for (const SequenceIndex sequence : parts[part]) tokens += pass.RoomOf(sequence);
    double room = tokens / pass.bin_limits().capacity;
    for (const LoadBudget& limit : pass.loads().limits()) {
      if (limit.dealt || limit.most == 0) continue;
      double sum = 0;
      for (const SequenceIndex sequence : parts[part]) {
        sum += pass.loads().given().Of(limit.load, sequence);
      }
      room = std::max(room, sum / limit.most);
    }
    rooms.push_back(room);
  }
  return rooms;
}

// Bundles of `each` parts of one size, as even as possible. `order` is by room, descending.
std::vector<Bundle> EvenBundles(std::span<const double> rooms, std::span<const size_t> order,
                                size_t each) {
  std::vector<Bundle> bundles((order.size() + each - 1) / each);
  using Open = std::pair<double, size_t>;
  std::priority_queue<Open, std::vector<Open>, std::greater<>> open;
  for (size_t bundle = 0; bundle < bundles.size(); ++bundle) open.emplace(0, bundle);
  for (const size_t part : order) {
    const auto [room, bundle] = open.top();
    open.pop();
    bundles[bundle].parts.push_back(part);
    if (bundles[bundle].parts.size() < each) open.emplace(room + rooms[part], bundle);
  }
  return bundles;
}

// Bundles of parts of several sizes: each part with the smallest part that completes the multiple,
// or else with the smallest parts until together they are a multiple. `order` is by room,
// descending.
std::vector<Bundle> CompletedBundles(const SequenceLists& parts, std::span<const size_t> order,
                                     uint32_t multiple) {
  std::vector<bool> taken(parts.size(), false);
  // By the remainder of their sizes, in that order.
  std::unordered_map<uint64_t, std::vector<size_t>> by_rest;
  for (const size_t part : order) by_rest[parts[part].size() % multiple].push_back(part);
  std::vector<size_t> all(order.begin(), order.end());
  const auto smallest = [&](std::vector<size_t>& of) -> std::optional<size_t> {
    while (!of.empty() && taken[of.back()]) of.pop_back();
    return of.empty() ? std::nullopt : std::optional(of.back());
  };
  std::vector<Bundle> bundles;
  for (const size_t first : order) {
    if (taken[first]) continue;
    Bundle& bundle = bundles.emplace_back();
    std::optional<size_t> next = first;
    while (next) {
      taken[*next] = true;
      bundle.parts.push_back(*next);
      bundle.sequences += parts[*next].size();
      const uint64_t rest = bundle.sequences % multiple;
      if (rest == 0) break;
      const auto completing = by_rest.find(multiple - rest);
      next = completing == by_rest.end() ? std::nullopt : smallest(completing->second);
      if (!next) next = smallest(all);
    }
  }
  return bundles;
}

std::vector<Bundle> Neighbours(const SequenceLists& parts, std::span<const size_t> order,
                               uint32_t multiple) {
  std::vector<Bundle> bundles;
  for (const size_t part : order) {
    if (bundles.empty() || bundles.back().sequences % multiple == 0) bundles.emplace_back();
    bundles.back().parts.push_back(part);
    bundles.back().sequences += parts[part].size();
  }
  return bundles;
}

}  // namespace

SequenceLists Bundled(const Pass& pass, SequenceLists parts, uint32_t multiple) {
  if (multiple == 1) return parts;
  const std::vector<double> rooms = RoomOfParts(pass, parts);
  std::vector<Bundle> bundles;
  std::vector<size_t> order;
  bool alike = true;
  for (size_t part = 0; part < parts.size(); ++part) {
    if (parts[part].size() % multiple == 0) {
      bundles.push_back({.parts = {part}, .sequences = parts[part].size()});
      continue;
    }
    order.push_back(part);
    alike = alike && parts[part].size() == 1;
  }
  const auto longest_of = [&](size_t part) {
    uint32_t longest = 0;
    for (const SequenceIndex sequence : parts[part]) {
      longest = std::max(longest, pass.aligned()[sequence.value()]);
    }
    return longest;
  };
  const bool padded = pass.options().layout == Layout::kPadded;
  std::ranges::stable_sort(order, std::greater<>(), [&](size_t part) {
    return padded ? static_cast<double>(longest_of(part)) : rooms[part];
  });
  std::vector<Bundle> made = padded  ? Neighbours(parts, order, multiple)
                             : alike ? EvenBundles(rooms, order, multiple)
                                     : CompletedBundles(parts, order, multiple);
  for (Bundle& bundle : made) {
    std::ranges::sort(bundle.parts);
    bundles.push_back(std::move(bundle));
  }
  std::ranges::sort(bundles, {}, [](const Bundle& bundle) { return bundle.parts.front(); });
  SequenceLists lists;
  lists.Reserve(bundles.size(), parts.all().size());
  for (const Bundle& bundle : bundles) {
    for (const size_t part : bundle.parts) lists.Push(parts[part]);
    lists.Close();
  }
  return lists;
}

absl::Status CheckBundles(const Pass& pass, const Items& items, absl::string_view where) {
  if (pass.rank_multiple() == 1) return absl::OkStatus();
  const size_t sequences = items.sequences.all().size();
  if (sequences % pass.rank_multiple() != 0) {
    const bool of_rank = pass.rank_multiple() != pass.row_multiple();
    return absl::InvalidArgumentError(
        absl::StrCat(where, " has ", sequences, " sequences, which sequence_count_multiple ",
                     of_rank ? absl::StrCat("of all passes, together ", pass.rank_multiple())
                             : absl::StrCat(pass.row_multiple()),
                     ", does not divide; give more, or fewer"));
  }
  if (pass.row_multiple() == 1) return absl::OkStatus();
  const PassOptions& options = pass.options();
  const bool padded = options.layout == Layout::kPadded;
  for (uint32_t item = 0; item < items.size(); ++item) {
    const uint64_t count = items.sequences[item].size();
    const bool fits = padded ? pass.padded_limits().Allow(count, items.lengths[item])
                             : items.lengths[item] <= pass.bin_limits().capacity &&
                                   count <= pass.bin_limits().max_sequences;
    const bool is_light = std::ranges::all_of(pass.loads().limits(), [&](const LoadBudget& limit) {
      double sum = 0;
      for (const SequenceIndex sequence : items.sequences[item]) {
        sum += pass.loads().given().Of(limit.load, sequence);
      }
      return limit.dealt || sum <= limit.most;
    });
    if (fits && is_light) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        where, ": no ", options.sequence_count_multiple, " sequences (sequence_count_multiple)",
        " were found for every micro-batch that are within max_tokens_per_microbatch ",
        options.max_tokens_per_microbatch, " and other limits together; raise these"));
  }
  return absl::OkStatus();
}

}  // namespace batchplan
