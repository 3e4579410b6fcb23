#!/usr/bin/env bash
# From a fresh Debian 12 or 13 to a planned batch: installs what is missing, builds, starts a server, plans
# the documents of this machine over gRPC with the balanced solver, and shows what the plan is worth.
# Seconds when run again.
#
#   deploy/quickstart.sh            plans for 8 data-parallel ranks, 16,384 tokens a micro-batch
#   DP=16 BUDGET=32768 deploy/quickstart.sh
set -euo pipefail
cd "$(dirname "$0")/.."

dp=${DP:-8}
budget=${BUDGET:-16384}
bin=build/release/bin
work=$(mktemp -d)
server=

stop() {
  if [ -n "$server" ] && kill -TERM "$server" 2>/dev/null; then wait "$server" || true; fi
  rm -rf "$work"
}
trap stop EXIT

say() { printf '\n== %s\n' "$*"; }

say "Packages"
deploy/install_packages.sh build

say "Build (the first takes some minutes)"
# Tests stay as an earlier configuration has them.
[ -f build/release/CMakeCache.txt ] ||
  cmake --preset release -DBATCHPLAN_TESTS=OFF -DBATCHPLAN_BENCHMARKS=OFF >/dev/null
cmake --build --preset release --target batchplan-server batchplan

say "Documents of this machine"
# Headers, texts and the paragraphs of the package index; four bytes are taken for a token.
for folder in /usr/include /usr/share/doc /usr/share/common-licenses /usr/share/perl /usr/share/cmake-*; do
  [ ! -d "$folder" ] || "$bin/batchplan" lengths "$folder" >>"$work/lengths"
done
"$bin/batchplan" lengths --per paragraph /var/lib/dpkg/status >>"$work/lengths"
documents=$(wc -l <"$work/lengths")
echo "$documents documents, $(sort -n "$work/lengths" | awk '
  { length_of[NR] = $1; tokens += $1 }
  END { printf "%d tokens; median %d, 99th percentile %d, longest %d", tokens, length_of[int((NR + 1) / 2)],
        length_of[int(NR * 0.99)], length_of[NR] }')"
[ "$documents" -ge 1000 ] ||
  echo "Fewer than 1,000: this image was stripped of its documents, and the figures below are of few."

say "Server"
"$bin/batchplan-server" --listen=127.0.0.1:0 --metrics_listen=127.0.0.1:0 --verify_plans --drain_delay=0 \
  2>"$work/log" &
server=$!
for _ in $(seq 100); do
  grep -q 'event=listening' "$work/log" && break
  kill -0 "$server" 2>/dev/null || { cat "$work/log" >&2; exit 1; }
  sleep 0.1
done
grep 'event=listening' "$work/log"
address() { grep 'event=listening' "$work/log" | sed -n "s/.* $1=\([^ ]*\).*/\1/p"; }

say "Plan over gRPC: $dp data-parallel ranks, CP 2, $budget tokens a micro-batch, longer documents cut"
"$bin/batchplan" plan --server "$(address grpc)" --lengths "$work/lengths" \
  --dp "$dp" --cp 2 --budget "$budget" --overlong truncate --job quickstart --verify

curl -sf "http://$(address metrics)/metrics" >"$work/metrics"
say "A dozen of the server's $(grep -c '^batchplan_' "$work/metrics") series, as Prometheus sees them after that plan"
dozen=(
  requests_total plans_total plan_check_failures_total planning_seconds_sum
  microbatches_total lower_bound_microbatches_total
  true_tokens_total scheduled_tokens_total naive_tokens_total budget_tokens_total
  step_efficiency_sum step_time_over_bound_sum
)
grep -E "^batchplan_($(IFS='|'; echo "${dozen[*]}"))[{ ]" "$work/metrics" | grep -v '} 0$'

say "Stop"
kill -TERM "$server"
wait "$server"
server=
tail -n 1 "$work/log"

say "Where to go next"
cat <<EOF
$bin/batchplan lengths /usr/share/doc >lengths.txt     # or your own files
$bin/batchplan compare --lengths lengths.txt --dp $dp --budget $budget --overlong truncate
$bin/batchplan plan --lengths lengths.txt --dp $dp --budget $budget --overlong truncate --format html >plan.html

client/python/README.md   the same from Python; tensors, and drop-in planners for trainers
deploy/README.md          a server for several jobs: flags, security, replicas, what to watch
deploy/metrics.md         what each metric is
EOF
