// The names of a call in logs: its request id and its trace.

#ifndef BATCHPLAN_SERVER_SERVICE_RPC_CALL_NAMES_H_
#define BATCHPLAN_SERVER_SERVICE_RPC_CALL_NAMES_H_

#include <grpcpp/support/string_ref.h>

#include <map>
#include <string>
#include <string_view>

namespace batchplan {

// A request id for a call without one, such as "server-5f3a9c01d2e4b687-2a": unique in this process
// (a counter) and across processes (random digits). Not a secret. Thread-safe.
std::string NewRequestId();

// Whether `text` is a traceparent of W3C's Trace Context, level 1: version, trace id, parent id and
// flags in lower-case hexadecimal digits, neither id all zeros; more may follow in a later version.
bool IsTraceparent(std::string_view text);

// The traceparent in a call's metadata; empty unless there is exactly one and it is valid.
std::string TraceparentOf(const std::multimap<grpc::string_ref, grpc::string_ref>& metadata);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_RPC_CALL_NAMES_H_
