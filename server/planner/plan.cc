#include "server/planner/plan.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <new>
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

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new()) {
    if (context_ == nullptr || EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) != 1) {
      throw std::bad_alloc();
    }
  }

  void Add(std::span<const uint32_t> values, const std::stop_token& stop) {
    const uint64_t count = values.size();
    EVP_DigestUpdate(context_.get(), &count, sizeof(count));
    while (!values.empty() && !stop.stop_requested()) {
      const auto next = values.first(std::min(values.size(), kValuesPerLook));
      EVP_DigestUpdate(context_.get(), next.data(), next.size_bytes());
      values = values.subspan(next.size());
    }
  }

  std::string Hex() {
    std::array<char, EVP_MAX_MD_SIZE> digest;
    unsigned int size = 0;
    EVP_DigestFinal_ex(context_.get(), reinterpret_cast<unsigned char*>(digest.data()), &size);
    return absl::BytesToHexString(std::string(digest.data(), size));
  }

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context_;
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
