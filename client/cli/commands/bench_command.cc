#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "batchplan/client.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "client/cli/bench/echo_process.h"
#include "client/cli/bench/load.h"
#include "client/cli/bench/results.h"
#include "client/cli/bench/target.h"
#include "client/cli/commands/commands.h"
#include "client/cli/input/choice.h"
#include "client/cli/input/count.h"
#include "client/cli/input/request_input.h"
#include "client/cli/input/server_flags.h"
#include "client/cli/output/outcome.h"
#include "client/cpp/channel_credentials.h"

namespace batchplan::cli {
namespace {

constexpr char kCommand[] = "bench";

constexpr char kFooter[] = R"(
A closed loop (--concurrency, the default) keeps so many calls under way: it finds the most that the
server does. An open loop (--rate) sends calls on a schedule, at random or evenly, and counts a
latency from the moment when its call was due, so that a call held up behind a slow one shows it: it
finds the latency at that rate. Percentiles are at most 0.8 % too high. Calls within the warm-up are
not counted; a failed call counts as an error and not into the latencies.

Every call has a step and a seed of its own, which no earlier run had, so that it is planned and not
answered from the server's plan cache; --repeat sends the same --distinct requests again and again.

--echo measures the same load on a server that does nothing: a process on this machine which answers
the same bytes with a plan's bytes. The two take turns, --rounds times. It also times the planner in
this process, one plan after the other. What is between "server" and "in process" + "echo" is the
server's own; compare on one machine, for the network is not in it.

--format json prints an array, an object a row: "name", "calls", "errors" by code, "seconds",
"callsPerSecond", "milliseconds" with "p50", "p90", "p99", "p99.9" and "max".

Examples:
  How many small plans a second, from 16 callers?
    batchplan bench --server planner:50051 --sequences 256 --dp 8 --budget 16384 --concurrency 16
  What latency has a real batch, at 50 plans a second?
    batchplan bench --server planner:50051 --lengths lengths.txt --dp 8 --budget 16384 --rate 50
  What does the server add to planning?
    batchplan bench --server localhost:50051 --sequences 4096 --dp 8 --budget 16384 --echo \
        --concurrency 1

Exit codes:
  0  every call was answered with a plan
  1  some calls failed, or an input can't be read
  2  the command line is wrong
  3  the server can't be reached
)";

struct BenchFlags {
  RequestInput input;
  uint32_t sequences = 0;
  uint32_t distinct = 16;
  ServerFlags where;
  BenchTargetOptions target;
  size_t concurrency = 8;
  // 0: a closed loop.
  double rate = 0;
  bool evenly = false;
  absl::Duration warm_up = absl::Seconds(1);
  absl::Duration duration = absl::Seconds(10);
  bool echo = false;
  int rounds = 3;
  std::string format = "table";
};

constexpr double kShortest = 16;
constexpr double kMedian = 900;
constexpr double kSigma = 0.9;

// Appends `sequences` lengths to `manifest`, which is empty. They are lognormal with median 900 and
// sigma 0.9, like answers in RL on mathematics, and cut to 16 .. `longest` tokens (at least 16). A
// seed always gives the same lengths.
void FillLengths(uint32_t sequences, uint32_t longest, uint64_t seed, v1::Manifest* manifest) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  manifest->mutable_lengths()->Reserve(static_cast<int>(sequences));
  for (uint32_t i = 0; i < sequences; ++i) {
    const double length = kMedian * std::exp(kSigma * normal(random));
    manifest->add_lengths(
        static_cast<uint32_t>(std::clamp(length, kShortest, static_cast<double>(longest))));
  }
}

// The requests that the calls send in turn.
absl::StatusOr<std::vector<v1::PlanBatchRequest>> Requests(BenchFlags* flags) {
  if (flags->sequences == 0) {
    if (absl::Status read = flags->input.Read(); !read.ok()) return read;
    return std::vector<v1::PlanBatchRequest>{flags->input.request()};
  }
  std::vector<v1::PlanBatchRequest> requests(flags->distinct, flags->input.request());
  for (size_t i = 0; i < requests.size(); ++i) {
    uint32_t longest = UINT32_MAX;
    for (const v1::Pass& pass : requests[i].passes()) {
      // A sixteenth below the budget, so that the aligned length still fits.
      longest = std::min(longest, pass.max_tokens_per_microbatch() / 16 * 15);
    }
    FillLengths(flags->sequences, std::max(16U, longest), i, requests[i].mutable_manifest());
  }
  return requests;
}

void RunLoad(const BenchFlags& flags, uint64_t round, BenchTarget& target, BenchResult* result) {
  const absl::Duration duration = flags.duration / flags.rounds;
  if (flags.rate > 0) {
    OpenLoop load;
    load.rate = flags.rate;
    load.poisson = !flags.evenly;
    load.seed = round;
    load.warm_up = flags.warm_up;
    load.duration = duration;
    RunOpenLoop(load, target.call(), result);
  } else {
    RunClosedLoop(
        {.concurrency = flags.concurrency, .warm_up = flags.warm_up, .duration = duration},
        target.call(), result);
  }
}

// Plans one request after the other for `duration`, timing each plan.
void PlanInProcess(const std::vector<v1::PlanBatchRequest>& requests, absl::Duration duration,
                   BenchResult* result) {
  const Client client(MakeInProcessConnection());
  absl::Duration total;
  for (size_t i = 0; total < duration; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const absl::StatusOr<v1::PlanBatchResponse> plan =
        client.PlanBatch(requests[i % requests.size()]);
    const absl::Duration time = absl::FromChrono(std::chrono::steady_clock::now() - start);
    total += time;
    if (plan.ok()) {
      result->latencies.Record(time);
    } else {
      ++result->errors[plan.status().code()];
      result->messages[plan.status().code()] = std::string(plan.status().message());
    }
  }
  result->measured += total;
}

std::string Described(const BenchFlags& flags, const std::vector<v1::PlanBatchRequest>& requests) {
  const std::string load = flags.rate > 0
                               ? absl::StrFormat("open loop, %g calls a second %s", flags.rate,
                                                 flags.evenly ? "evenly" : "at random")
                               : absl::StrFormat("closed loop of %d", flags.concurrency);
  return absl::StrCat(flags.where.server, ": ", load, ", ",
                      requests.front().manifest().lengths_size(), " sequences a call, ",
                      absl::FormatDuration(flags.duration));
}

// The credentials for the server; the echo server is always called in plain text.
absl::StatusOr<BenchTargetOptions> SecureTarget(const BenchFlags& flags) {
  BenchTargetOptions target = flags.target;
  const RemoteOptions remote = flags.where.remote_options();
  if (absl::Status valid = remote.Validate(); !valid.ok()) return valid;
  absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> credentials =
      MakeChannelCredentials(remote);
  if (!credentials.ok()) return credentials.status();
  target.credentials = *std::move(credentials);
  if (remote.tls.has_value()) target.server_name = remote.tls->server_name;
  return target;
}

ExitCode RunBench(BenchFlags* flags) {
  flags->target.timeout = flags->where.timeout.value_or(flags->target.timeout);
  // Forked before anything else, while gRPC has no threads.
  std::unique_ptr<EchoProcess> echo_process;
  if (flags->echo) {
    absl::StatusOr<std::unique_ptr<EchoProcess>> forked = EchoProcess::Fork();
    if (!forked.ok()) return ReportError(kCommand, forked.status());
    echo_process = *std::move(forked);
  } else {
    flags->rounds = 1;
  }
  const absl::StatusOr<std::vector<v1::PlanBatchRequest>> requests = Requests(flags);
  if (!requests.ok()) return ReportError(kCommand, requests.status());

  const absl::StatusOr<BenchTargetOptions> secure = SecureTarget(*flags);
  if (!secure.ok()) return ReportError(kCommand, secure.status());
  BenchTarget server(flags->where.server, *secure, *requests);
  const absl::StatusOr<std::string> response = server.Probe();
  if (!response.ok()) return ReportError(kCommand, flags->input.NameFlags(response.status()));
  std::unique_ptr<BenchTarget> echo;
  if (echo_process != nullptr) {
    const absl::StatusOr<std::string> address = echo_process->Serve(*response);
    if (!address.ok()) return ReportError(kCommand, address.status());
    echo = std::make_unique<BenchTarget>(*address, flags->target, *requests);
    if (const auto echoed = echo->Probe(); !echoed.ok()) {
      return ReportError(kCommand, echoed.status());
    }
  }

  BenchResult of_server;
  BenchResult of_echo;
  BenchResult in_process;
  for (int round = 0; round < flags->rounds; ++round) {
    RunLoad(*flags, static_cast<uint64_t>(round), server, &of_server);
    if (echo == nullptr) continue;
    RunLoad(*flags, static_cast<uint64_t>(round), *echo, &of_echo);
    PlanInProcess(*requests, flags->duration / flags->rounds, &in_process);
  }
  std::vector<BenchRow> rows = {{.name = "server", .result = &of_server}};
  if (echo != nullptr) {
    rows.push_back({.name = "echo", .result = &of_echo});
    rows.push_back({.name = "in process", .result = &in_process});
  }
  const ExitCode printed = ReportError(
      kCommand, WriteToStdout(flags->format == "json"
                                  ? FormatBenchJson(rows)
                                  : FormatBenchTable(Described(*flags, *requests), rows)));
  if (printed != ExitCode::kOk) return printed;
  return of_server.errors.empty() ? ExitCode::kOk : ExitCode::kFailed;
}

absl::Duration ParseDurationFlag(const std::string& flag, const std::string& text,
                                 absl::Duration least) {
  absl::Duration duration;
  if (!absl::ParseDuration(text, &duration) || duration < least ||
      duration == absl::InfiniteDuration()) {
    throw CLI::ValidationError(
        flag, absl::StrCat("\"", text, "\" is not a duration of at least ",
                           absl::FormatDuration(least), ", such as 500ms, 10s or 2m"));
  }
  return duration;
}

void AddDuration(CLI::App* command, const std::string& flag, absl::Duration least,
                 absl::Duration* duration, const std::string& help, const std::string& group) {
  command
      ->add_option_function<std::string>(
          flag, [=](const std::string& text) { *duration = ParseDurationFlag(flag, text, least); },
          help)
      ->type_name("DURATION")
      ->group(group);
}

}  // namespace

void AddBenchCommand(CLI::App* app, ExitCode* exit_code) {
  const auto flags = std::make_shared<BenchFlags>();
  CLI::App* command =
      app->add_subcommand(kCommand, "Put load on a server and measure throughput and latency");
  command->footer(kFooter);

  flags->input.AddTo(command);
  CLI::Option* sequences =
      command
          ->add_option("--sequences", flags->sequences,
                       "Random lengths, so many a call: lognormal, median 900, at most 15/16 of "
                       "the budget")
          ->transform(AsCount())
          ->check(CLI::Range(1U, 1U << 24).description(""))
          ->type_name("N");
  flags->input.AddAlternative(sequences);
  command
      ->add_option("--distinct", flags->distinct,
                   "Different batches with --sequences, in turn [16]")
      ->transform(AsCount())
      ->check(CLI::Range(1U, 1U << 16).description(""))
      ->needs(sequences)
      ->type_name("N")
      ->group("Load");

  flags->where.AddTo(command, "The server to put load on")->required();
  command->add_option("--connections", flags->target.connections, "Connections, used in turn [1]")
      ->transform(AsCount())
      ->check(CLI::Range(1U, 1024U).description(""))
      ->type_name("N")
      ->group("Where");

  CLI::Option* concurrency =
      command
          ->add_option("--concurrency", flags->concurrency,
                       "Closed loop: so many calls are under way at any time [8]")
          ->transform(AsCount())
          ->check(CLI::Range(1U, 100'000U).description(""))
          ->type_name("N")
          ->group("Load");
  CLI::Option* rate =
      command
          ->add_option("--rate", flags->rate, "Open loop: so many calls a second, at random times")
          ->check(CLI::Range(1e-3, 1e6).description(""))
          ->excludes(concurrency)
          ->type_name("X")
          ->group("Load");
  command->add_flag("--evenly", flags->evenly, "Open loop: calls at equal intervals")
      ->needs(rate)
      ->group("Load");
  AddDuration(command, "--duration", absl::Milliseconds(1), &flags->duration,
              "How long to measure [10s]", "Load");
  AddDuration(command, "--warm_up", absl::ZeroDuration(), &flags->warm_up,
              "Before each measurement [1s]", "Load");
  command->add_option("--jobs", flags->target.jobs, "Job ids that calls take in turn [1]")
      ->transform(AsCount())
      ->check(CLI::Range(1U, 65536U).description(""))
      ->type_name("N")
      ->group("Load");
  command
      ->add_flag("--repeat", flags->target.repeat,
                 "Send the same requests again and again, which a plan cache may answer")
      ->group("Load");
  CLI::Option* echo = command
                          ->add_flag("--echo", flags->echo,
                                     "Measure a server that does nothing, and the planner in this "
                                     "process, too")
                          ->group("Load");
  command->add_option("--rounds", flags->rounds, "Turns of server and echo server [3]")
      ->transform(AsCount())
      ->check(CLI::Range(1, 1000).description(""))
      ->needs(echo)
      ->type_name("N")
      ->group("Load");

  command->add_option("--format", flags->format, "table or json [table]")
      ->check(OneOf({"table", "json"}))
      ->type_name("NAME")
      ->group("Output");

  command->callback([=] {
    flags->input.Check();
    *exit_code = RunBench(flags.get());
  });
}

}  // namespace batchplan::cli
