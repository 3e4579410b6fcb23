#include "server/service/rpc/call_names.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <random>

#include "absl/strings/str_format.h"

namespace batchplan {
namespace {

bool IsHex(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool IsZeros(std::string_view text) {
  return text.find_first_not_of('0') == std::string_view::npos;
}

}  // namespace

std::string NewRequestId() {
  static const std::string process = [] {
    std::random_device random;
    return absl::StrFormat("server-%08x%08x", random(), random());
  }();
  static std::atomic<uint64_t> calls = 0;
  return absl::StrFormat("%s-%x", process, calls.fetch_add(1, std::memory_order_relaxed));
}

bool IsTraceparent(std::string_view text) {
  // version-trace-parent-flags: vv-tttttttttttttttttttttttttttttttt-pppppppppppppppp-ff
  constexpr size_t kTrace = 3;
  constexpr size_t kParent = 36;
  constexpr size_t kFlags = 53;
  constexpr size_t kBytes = 55;
  if (text.size() < kBytes) return false;
  const std::string_view version = text.substr(0, 2);
  const std::string_view trace = text.substr(kTrace, 32);
  const std::string_view parent = text.substr(kParent, 16);
  if (!IsHex(version) || !IsHex(trace) || !IsHex(parent) || !IsHex(text.substr(kFlags, 2))) {
    return false;
  }
  if (text[kTrace - 1] != '-' || text[kParent - 1] != '-' || text[kFlags - 1] != '-') return false;
  if (version == "ff" || IsZeros(trace) || IsZeros(parent)) return false;
  return text.size() == kBytes || (version != "00" && text[kBytes] == '-');
}

std::string TraceparentOf(const std::multimap<grpc::string_ref, grpc::string_ref>& metadata) {
  const auto [first, last] = metadata.equal_range("traceparent");
  if (first == last || std::next(first) != last) return "";
  const std::string_view text(first->second.data(), first->second.size());
  return IsTraceparent(text) ? std::string(text) : "";
}

}  // namespace batchplan
