#include "server/base/address_space.h"

#include <sys/resource.h>

#include <optional>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "absl/strings/str_cat.h"

namespace batchplan {
namespace {

// The limit of this process's address space; none if there is none.
std::optional<uint64_t> Limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

}  // namespace

void SpareAddressSpace() {
#ifdef __GLIBC__
  if (Limit()) mallopt(M_ARENA_MAX, 1);
#endif
}

absl::Status CheckAddressSpace(absl::string_view user, uint64_t bytes) {
  const std::optional<uint64_t> limit = Limit();
  if (!limit || *limit >= bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the limit on the address space (ulimit -v) is ", *limit >> 20, " MiB, but ", user,
      " needs at least ", bytes >> 20, " MiB; raise it, or limit the memory otherwise"));
}

}  // namespace batchplan
