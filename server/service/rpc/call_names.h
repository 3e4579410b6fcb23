// What a call goes by in logs: its request id and the trace that it belongs to.

#ifndef BATCHPLAN_SERVER_SERVICE_RPC_CALL_NAMES_H_
#define BATCHPLAN_SERVER_SERVICE_RPC_CALL_NAMES_H_

#include <grpcpp/support/string_ref.h>

#include <map>
#include <string>
#include <string_view>

namespace batchplan {

// A request id for a call that brought none, such as "server-5f3a9c01d2e4b687-2a": unlike that of
// any other call, in this process (a counter) or in another (random digits). Not a secret.
// Thread-safe.
std::string NewRequestId();

// Whether `text` is a traceparent as W3C's Trace Context, level 1, has it: version, trace id,
// parent id and flags in lower-case hexadecimal digits, neither id all zeros; more may follow a
// version that is not known yet.
bool IsTraceparent(std::string_view text);

// The traceparent that a call's metadata carry; empty unless there is exactly one, and valid.
std::string TraceparentOf(const std::multimap<grpc::string_ref, grpc::string_ref>& metadata);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_RPC_CALL_NAMES_H_
