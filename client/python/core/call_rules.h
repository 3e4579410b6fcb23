// The rules for calls that fail, and constants of channels, for Python: those of the C++ client.

#ifndef BATCHPLAN_CLIENT_PYTHON_CORE_CALL_RULES_H_
#define BATCHPLAN_CLIENT_PYTHON_CORE_CALL_RULES_H_

#include <nanobind/nanobind.h>

namespace batchplan::python {

// Adds CallAttempts, CallKind, Action, and what proto/batchplan/v1/call_rules.h and run_id.h have
// beside them to the module. All times are in seconds.
void BindCallRules(nanobind::module_& module);

}  // namespace batchplan::python

#endif  // BATCHPLAN_CLIENT_PYTHON_CORE_CALL_RULES_H_
