#include "proto/batchplan/v1/call_rules.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <new>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/python/core/bindings.h"
#include "proto/batchplan/v1/run_id.h"

namespace nb = nanobind;

namespace batchplan::python {
namespace {

nb::tuple After(CallAttempts& attempts, int code, std::optional<double> pushback, double elapsed,
                double random) {
  std::optional<absl::Duration> told;
  if (pushback) told = absl::Seconds(*pushback);
  const Verdict verdict =
      attempts.After(static_cast<absl::StatusCode>(code), told, absl::Seconds(elapsed), random);
  return nb::make_tuple(verdict.action, absl::ToDoubleSeconds(verdict.wait));
}

}  // namespace

void BindCallRules(nb::module_& module) {
  nb::enum_<CallKind>(module, "CallKind")
      .value("PLAN", CallKind::kPlan)
      .value("PLAN_WITH_FALLBACK", CallKind::kPlanWithFallback)
      .value("JOIN", CallKind::kJoin)
      .value("REPORT", CallKind::kReport);
  nb::enum_<Action>(module, "Action")
      .value("RETRY", Action::kRetry)
      .value("RETURN", Action::kReturn)
      .value("FALL_BACK", Action::kFallBack);
  nb::class_<CallAttempts>(module, "CallAttempts")
      .def(
          "__init__",
          [](CallAttempts* attempts, CallKind kind, double timeout) {
            new (attempts) CallAttempts(kind, CallLimits{}, absl::Seconds(timeout));
          },
          nb::arg("kind"), nb::arg("timeout"))
      .def(
          "timeout",
          [](const CallAttempts& attempts, double elapsed) {
            return absl::ToDoubleSeconds(attempts.Timeout(absl::Seconds(elapsed)));
          },
          nb::arg("elapsed"))
      .def("after", &After, nb::arg("code"), nb::arg("pushback").none(), nb::arg("elapsed"),
           nb::arg("random"));
  module.def("is_no_answer",
             [](int code) { return IsNoAnswer(static_cast<absl::StatusCode>(code)); });
  module.def("is_too_large", [](const std::string& message) { return IsTooLarge(message); });
  module.def("default_run_id", [](uint32_t world_size) { return DefaultRunId(world_size); });

  const auto add = [&module](const char* name, absl::Duration value) {
    module.attr(name) = absl::ToDoubleSeconds(value);
  };
  add("KEEPALIVE_TIME", kKeepaliveTime);
  add("KEEPALIVE_TIMEOUT", kKeepaliveTimeout);
  add("CONNECT_TIMEOUT", kConnectTimeout);
  add("RESOLVE_INTERVAL", kResolveInterval);
  add("INITIAL_BACKOFF", kInitialBackoff);
  add("MAX_BACKOFF", kMaxBackoff);
  add("PROBE_TIMEOUT", kProbeTimeout);
}

}  // namespace batchplan::python
