// What this program was built from.

#ifndef BATCHPLAN_CLIENT_CLI_VERSION_H_
#define BATCHPLAN_CLIENT_CLI_VERSION_H_

#include <string>

namespace batchplan::cli {

// "batchplan 1.2.3"; plans made by one version are alike.
std::string VersionLine();

// The same, with the versions of the libraries underneath, a line each.
std::string VersionReport();

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_VERSION_H_
