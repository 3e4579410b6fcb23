// The flags of batchplan-server.

#ifndef BATCHPLAN_SERVER_FLAGS_H_
#define BATCHPLAN_SERVER_FLAGS_H_

#include "absl/status/status.h"
#include "server/flag_set.h"
#include "server/service/server_options.h"
#include "server/telemetry/log.h"

namespace batchplan {

struct Flags {
  ServerOptions server;
  LogOptions log;
};

// Reads the command line, the environment and the configuration file into `flags`, whose values are
// the defaults. kDone if --help, --version or --print_config was given, and has been printed.
// Errors as by FlagSet::Read; also InvalidArgument if the values are not valid.
absl::Status ReadFlags(int argc, const char* const* argv, Flags* flags, FlagSet::Outcome* outcome);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_FLAGS_H_
