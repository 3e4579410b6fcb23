// The flags of a program, each known by one name wherever it is set: on the command line, in the
// environment, in a configuration file.
//
//   FlagSet flags("batchplan-server", "Plans batches.", "Exit status: ...");
//   flags.Group("Listeners");
//   flags.Add("listen", &options.listen, "HOST:PORT", "Serve gRPC here");
//   flags.Add("reflection", &options.reflection, "Serve reflection");
//   FlagSet::Outcome outcome;
//   absl::Status status = flags.Read(argc, argv, &outcome);
//
// The value of --listen is the first of: the flag, the variable BATCHPLAN_LISTEN, the key `listen`
// of the --config file, the value before Read. Read once, from one thread, before others are
// started.

#ifndef BATCHPLAN_SERVER_FLAG_SET_H_
#define BATCHPLAN_SERVER_FLAG_SET_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace batchplan {

class FlagSet {
 public:
  FlagSet(const std::string& program, const std::string& description, const std::string& footer,
          const std::string& version);
  ~FlagSet();

  FlagSet(const FlagSet&) = delete;
  FlagSet& operator=(const FlagSet&) = delete;

  // The heading under which --help shows the flags added from here on.
  void Group(const std::string& name) { group_ = name; }

  // Adds a flag that is set through the pointer, which must outlive Read. `type` and `description`
  // are for --help; `choices`, if any, are the only values of a text. A bool may be given without a
  // value, and has a --no form.
  void Add(const std::string& name, std::string* value, const std::string& type,
           const std::string& description, const std::vector<std::string>& choices = {});
  void Add(const std::string& name, int64_t* value, const std::string& type,
           const std::string& description);
  void Add(const std::string& name, bool* value, const std::string& description);
  // In seconds.
  void Add(const std::string& name, absl::Duration* value, const std::string& description);

  // What the program has to do. kDone: nothing, as --help or --version has been printed.
  // kPrintConfig: print ConfigurationFile, if the values are valid.
  enum class Outcome { kRun, kDone, kPrintConfig };

  // Sets all flags. InvalidArgument, naming the flag, variable or key, its value and its source,
  // for what is not understood; NotFound if the configuration can't be read.
  absl::Status Read(int argc, const char* const* argv, Outcome* outcome);

  // All flags and their values as a configuration file that Read reads back to the same. Flags that
  // hold no text are shown as comments.
  std::string ConfigurationFile() const;

  // The source of a flag's value, as in " (from batchplan.toml)", or "" for the command line. For
  // errors that are found later.
  std::string SourceOf(const std::string& name) const;

 private:
  struct Flag {
    CLI::Option* option;
    // The value as in a configuration file.
    std::function<std::string()> text;
    std::string description;
    std::string group;
    // Whether it holds no text unless it is set.
    bool may_be_empty;
    // The source of the value; empty: the command line, or none.
    std::string source;
  };

  void Remember(const std::string& name, CLI::Option* option, const std::string& description,
                std::function<std::string()> text);
  absl::Status SetFromFile(const std::string& path);
  absl::Status SetFromEnvironment();
  // Sets one flag from its text as if it stood on the command line.
  absl::Status Set(const std::string& name, const std::string& value, const std::string& source);

  const std::unique_ptr<CLI::App> app_;
  std::string group_;
  std::string config_;
  bool print_config_ = false;
  std::map<std::string, Flag> flags_;
  // In the order of Add.
  std::vector<std::string> names_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_FLAG_SET_H_
