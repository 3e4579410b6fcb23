#include "server/flags.h"

#include <iostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/planner/make_plan.h"

namespace batchplan {
namespace {

constexpr const char* kDescription =
    "Plans batches for LLM training: sequence lengths in, an executable plan out, over gRPC\n"
    "(batchplan.v1.BatchPlanner, with grpc.health.v1 and reflection).\n"
    "\n"
    "  batchplan-server\n"
    "      serves on 127.0.0.1:50051, metrics on http://127.0.0.1:9464/metrics\n"
    "  batchplan-server --listen=0.0.0.0:50051 --planning_threads=8\n"
    "      serves other machines; plain text, so on a trusted network or behind a proxy only\n"
    "  batchplan-server --listen=0.0.0.0:50051 --tls_certificate=server.pem --tls_key=server.key "
    "\\\n"
    "      --auth_tokens=tokens.txt\n"
    "      the same over TLS, for callers with a token\n";

constexpr const char* kFooter =
    "\nEach flag can also be set by an environment variable, BATCHPLAN_ and its name in capitals\n"
    "(BATCHPLAN_LISTEN), or by a line of the --config file (listen = \"0.0.0.0:50051\"). The "
    "command\n"
    "line goes before the environment, that before the file, that before the default in "
    "[brackets].\n"
    "Secrets are never values of flags, only files.\n"
    "\nSIGTERM or SIGINT drains: health checks turn NOT_SERVING, calls are still taken for\n"
    "--drain_delay seconds, then those in flight get --shutdown_grace seconds to end. A second\n"
    "signal ends the process at once.\n"
    "Exit status: 0 after a drain, 1 if the server can't start or takes no connections any more\n"
    "(--accept_patience), 2 for a usage error.\n";

// The value of --metrics_listen for no metrics.
constexpr const char* kOff = "off";

void AddFlags(ServerOptions* options, std::string* log_format, std::string* log_level,
              FlagSet* flags) {
  flags->Group("Listeners");
  flags->Add("listen", &options->listen, "HOST:PORT",
             "Serve gRPC here, or at unix:PATH; port 0 takes a free one");
  flags->Add("metrics_listen", &options->metrics_listen, "HOST:PORT",
             "Serve HTTP here: /metrics for Prometheus, /healthz and /readyz for probes, /plans "
             "for people; off: nowhere");
  flags->Add("reflection", &options->reflection, "Serve reflection, for grpcurl and the like");

  flags->Group("Planning");
  flags->Add("planning_threads", &options->planning_threads, "N",
             "Plans made at the same time, at least 2; 0: one a processor. One job never has all");
  flags->Add("max_queued_plans", &options->max_queued_plans, "N",
             "Requests that may wait for a planning thread; more are refused with "
             "RESOURCE_EXHAUSTED");
  flags->Add("max_queued_sequences", &options->max_queued_sequences, "N",
             "Sequences, once a pass, of all requests that wait or are planned; what is beyond is "
             "refused with RESOURCE_EXHAUSTED, calls of the token or peer that holds most first");
  flags->Add("max_planning_seconds", &options->max_planning_seconds,
             "Give up a plan that takes longer, with RESOURCE_EXHAUSTED");
  flags->Add("plan_cache_bytes", &options->plan_cache_bytes, "BYTES",
             "Memory for plans, to answer the same request again with; 0: none");
  flags->Add("max_message_bytes", &options->max_message_bytes, "BYTES",
             "Largest request and largest response; give clients the same limit");
  flags->Add("max_sequences", &options->max_sequences, "N",
             "Most sequences of one request, each counted once a pass");
  flags->Add("verify_plans", &options->verify_plans,
             "Prove every plan's promises before it is sent");

  flags->Group("Collective plans and fitted costs");
  flags->Add("rendezvous_store", &options->rendezvous_store, "memory|redis[s]://HOST:PORT",
             "Where steps that workers join, and fitted costs, are kept: here, or in a Redis that "
             "replicas share");
  flags->Add("rendezvous_password", &options->rendezvous_password, "FILE",
             "The password of that Redis, the first line of a file");
  flags->Add(
      "rendezvous_tls_ca", &options->rendezvous_tls_ca, "FILE",
      "The authorities of that Redis' certificate, for rediss://; PEM; the system's if none");
  flags->Add("rendezvous_tls_certificate", &options->rendezvous_tls_certificate, "FILE",
             "What to show a Redis that asks its clients for a certificate; PEM");
  flags->Add("rendezvous_tls_key", &options->rendezvous_tls_key, "FILE", "Its key; PEM");
  flags->Add("rendezvous_memory_bytes", &options->rendezvous_memory_bytes, "BYTES",
             "What steps may take in memory; beyond, who holds the most gives way or is refused");
  flags->Add("step_time_to_live", &options->step_time_to_live,
             "Forget a step that misses a worker so long after its last part came");
  flags->Add("step_retention", &options->step_retention,
             "Answer workers that ask again so long after a step was planned");
  flags->Add("max_waiting_joins", &options->max_waiting_joins, "N",
             "Workers that may wait for others at the same time");
  flags->Add("max_waiting_bytes", &options->max_waiting_bytes, "BYTES",
             "What the messages of calls that wait for workers or for the store may take");

  flags->Group("Security");
  flags->Add("tls_certificate", &options->tls_certificate, "FILE",
             "Serve gRPC over TLS with this certificate chain, a PEM file");
  flags->Add("tls_key", &options->tls_key, "FILE", "The key of --tls_certificate, a PEM file");
  flags->Add("tls_client_ca", &options->tls_client_ca, "FILE",
             "Serve only clients with a certificate from these authorities, a PEM file");
  flags->Add("tls_reload_interval", &options->tls_reload_interval,
             "Look so often whether these files, or --auth_tokens, have changed");
  flags->Add("auth_tokens", &options->auth_tokens, "FILE",
             "Serve only calls with a bearer token of this file, whose lines are `TOKEN "
             "JOB_PREFIX`: the jobs it may plan for, * for all. Needs TLS");

  flags->Group("Connections");
  flags->Add("keepalive_interval", &options->keepalive_interval,
             "Ping a connection on which nothing came in for so long");
  flags->Add("keepalive_timeout", &options->keepalive_timeout,
             "Close it if the answer takes longer");
  flags->Add(
      "min_client_ping_interval", &options->min_client_ping_interval,
      "Close the connection of a client that pings more often; clients of ours ping every 5 s "
      "while they wait");
  flags->Add("max_connection_idle", &options->max_connection_idle,
             "Close a connection without calls after so long; 0: never");
  flags->Add("max_connection_age", &options->max_connection_age,
             "Close any connection after so long, so that clients find new replicas; 0: never");
  flags->Add("max_connection_age_grace", &options->max_connection_age_grace,
             "What calls in flight get when their connection is closed for its age");
  flags->Add("handshake_timeout", &options->handshake_timeout,
             "What a new connection gets to show that it speaks gRPC");
  flags->Add("accept_patience", &options->accept_patience,
             "Drain and end with status 1, to be started anew, after connections have waited so "
             "long and none was taken, as after descriptors ran out; 0: never");
  flags->Add("max_concurrent_streams", &options->max_concurrent_streams, "N",
             "Calls at the same time on one connection; more wait in the client");
  flags->Add("max_unsent_bytes", &options->max_unsent_bytes, "BYTES",
             "What answers that callers have not read may take; beyond, those of the token or peer "
             "that holds most are cancelled or refused");
  flags->Add("max_metadata_bytes", &options->max_metadata_bytes, "BYTES",
             "The headers of one call");

  flags->Group("Logs and metrics");
  flags->Add("log_format", log_format, "text|json", "Lines of key=value, or a JSON object a line",
             {"text", "json"});
  flags->Add("log_level", log_level, "info|warning|error", "Write lines of this severity and above",
             {"info", "warning", "error"});
  flags->Add("max_job_labels", &options->max_job_labels, "N",
             "Jobs with time series of their own, until they are idle for an hour; others are "
             "counted as \"other\"");
  flags->Add("recent_plans", &options->recent_plans, "N",
             "Plans of each job that GET /plans of metrics_listen shows; 0: no such page");

  flags->Group("Stopping");
  flags->Add("drain_delay", &options->drain_delay,
             "From turning NOT_SERVING to closing the listeners and refusing calls");
  flags->Add("shutdown_grace", &options->shutdown_grace,
             "What calls in flight get once the listeners are closed");
}

// Adds where the value comes from to `status`, whose message begins with "--flag=value".
absl::Status WithSource(const absl::Status& status, const FlagSet& flags) {
  const std::string message(status.message());
  const size_t end = message.find('=');
  if (status.ok() || end == std::string::npos || end < 2) return status;
  return absl::Status(status.code(),
                      absl::StrCat(message, flags.SourceOf(message.substr(2, end - 2))));
}

}  // namespace

absl::Status ReadFlags(int argc, const char* const* argv, Flags* flags, FlagSet::Outcome* outcome) {
  FlagSet set("batchplan-server", kDescription, kFooter, std::string(PlannerVersion()));
  std::string log_format = flags->log.format == LogFormat::kJson ? "json" : "text";
  std::string log_level = "info";
  AddFlags(&flags->server, &log_format, &log_level, &set);
  absl::Status read = set.Read(argc, argv, outcome);
  if (!read.ok() || *outcome == FlagSet::Outcome::kDone) return read;

  flags->log.format = log_format == "json" ? LogFormat::kJson : LogFormat::kText;
  flags->log.lowest = log_level == "error"     ? Severity::kError
                      : log_level == "warning" ? Severity::kWarning
                                               : Severity::kInfo;
  const std::string configuration_file = set.ConfigurationFile();
  if (flags->server.metrics_listen == kOff) flags->server.metrics_listen.clear();
  if (absl::Status valid = flags->server.Validate(); !valid.ok()) return WithSource(valid, set);
  if (*outcome == FlagSet::Outcome::kPrintConfig) {
    std::cout << configuration_file << std::flush;
    *outcome = FlagSet::Outcome::kDone;
  }
  return absl::OkStatus();
}

}  // namespace batchplan
