#include "client/cli/version.h"

#include <google/protobuf/stubs/common.h>
#include <grpcpp/grpcpp.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "server/planner/make_plan.h"

namespace batchplan::cli {

std::string VersionLine() { return absl::StrCat("batchplan ", std::string(PlannerVersion())); }

std::string VersionReport() {
  return absl::StrCat(VersionLine(), "\ngRPC ", grpc::Version(), "\nprotobuf ",
                      GOOGLE_PROTOBUF_VERSION / 1000000, ".", GOOGLE_PROTOBUF_VERSION / 1000 % 1000,
                      ".", GOOGLE_PROTOBUF_VERSION % 1000, "\n");
}

}  // namespace batchplan::cli
