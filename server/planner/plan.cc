#include "server/planner/plan.h"

#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/strings/escaping.h"

namespace batchplan {
namespace {

static_assert(std::endian::native == std::endian::little,
              "arrays are hashed as they lie in memory");

// From one look for a stop to the next.
constexpr size_t kValuesPerLook = size_t{1} << 20;

// libcrypto's function itself, not through EVP: a program that is linked with it statically has
// nothing else of libcrypto then.
class Sha256 {
 public:
  Sha256() { SHA256_Init(&context_); }

  void Add(std::span<const uint32_t> values, const std::stop_token& stop) {
    const uint64_t count = values.size();
    SHA256_Update(&context_, &count, sizeof(count));
    while (!values.empty() && !stop.stop_requested()) {
      const auto next = values.first(std::min(values.size(), kValuesPerLook));
      SHA256_Update(&context_, next.data(), next.size_bytes());
      values = values.subspan(next.size());
    }
  }

  std::string Hex() {
    std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
    SHA256_Final(digest.data(), &context_);
    return absl::BytesToHexString(std::string(digest.begin(), digest.end()));
  }

 private:
  SHA256_CTX context_;
};

}  // namespace

std::string Fingerprint(const Plan& plan, const std::stop_token& stop) {
  Sha256 hash;
  for (const PassPlan& pass : plan.passes) {
    hash.Add(pass.sequence_index, stop);
    hash.Add(pass.microbatch_offsets, stop);
    hash.Add(pass.microbatches_per_rank, stop);
    hash.Add(pass.row_widths, stop);
    if (!pass.shared_tokens.empty()) hash.Add(pass.shared_tokens, stop);
    if (!pass.context_sizes.empty()) hash.Add(pass.context_sizes, stop);
  }
  std::vector<uint32_t> excluded;
  for (const ExcludedSequence& sequence : plan.excluded) {
    excluded.insert(excluded.end(),
                    {sequence.index, sequence.length, static_cast<uint32_t>(sequence.reason)});
  }
  hash.Add(excluded, stop);
  if (!plan.deferred.empty()) hash.Add(plan.deferred, stop);
  return hash.Hex();
}

}  // namespace batchplan
