'use strict';

// A plan's flat arrays, placed in time.

// One pass of a plan. Micro-batch m, in the plan's order, runs on rank[m] from start[m] for
// cost[m]; the rank goes on at until[m], having waited in between.
//
// All costs are of one of the context-parallel ranks that share a sequence and, with a pipeline, of
// its busiest stage. What that computes of a mini-batch stands end to end; after the last
// micro-batch m, bubble[m] is how long it has nothing to do. When each stage runs what, pipelineRun
// says.
//
// The sequences of micro-batch m are lengths[begin[m]] up to lengths[end[m] - 1].
//
// Where groups differ in size, each of a group's ranks has a micro-batch m of its own, with the same
// sequences: groupSize[m] ranks from groupFirst[m] on run it together. `plan` is then what
// withOwnRows makes of the response's.
class Placement {
  // `plan` is a PassPlan, `costs` a CostModel, both as JSON; `pipeline` a Pipeline or null;
  // `sequenceParallel` the tensor-parallel ranks that sequences are split across, 1 without.
  constructor(plan, {
    ranks, padded, accumulated, apart = false, costs, contextParallel = 1, pipeline = null,
    sequenceParallel = 1,
  }) {
    this.ranks = ranks;
    this.groupSize = plan.groupSize ?? null;
    this.groupFirst = plan.groupFirst ?? null;
    this.contextParallel = contextParallel;
    this.sequenceParallel = sequenceParallel;
    this.padded = padded;
    this.accumulated = accumulated;
    // Whether parts of the pool that share no group don't meet, while their ranks do after every slot.
    this.apart = apart;
    this.pipeline = pipeline;
    const share = pipeline?.share ?? 1;
    this.perToken = (costs?.perToken ?? 0) * share;
    this.perTokenSquared = (costs?.perTokenSquared ?? 0) * share;
    this.exchange = (costs?.exchange ?? [])
                        .map(({upToSize, perToken}) => ({upToSize, perToken: perToken * share}));
    this.exchangeOverlaps = Boolean(costs?.exchangeOverlaps);
    this.perMicrobatch = (costs?.perMicrobatch ?? 0) * share;
    this.perSequence = (costs?.perSequence ?? 0) * share;
    // What loads cost is in the predicted step time, but not in the picture.
    this.loadsCost = costs?.loads?.length > 0;
    this.multiple = Math.max(1, plan.lengthMultiple ?? 1);
    this.lengths = plan.sequenceLengths ?? [];
    this.indices = plan.sequenceIndex ?? [];
    // How many first tokens of each sequence stand in the row already; null where nothing is shared.
    this.shared = plan.sharedTokens?.length > 0 ? plan.sharedTokens : null;
    const offsets = plan.microbatchOffsets ?? [0];
    this.begin = plan.begin ?? offsets.slice(0, -1);
    this.end = plan.end ?? offsets.slice(1);
    this.widths = plan.rowWidths ?? [];
    this.size = this.widths.length;
    this.shortest = this.lengths.reduce((least, length) => Math.min(least, length), Infinity);
    this.longest = this.lengths.reduce((most, length) => Math.max(most, length), 1);

    this.rank = new Uint32Array(this.size);
    this.slot = new Uint32Array(this.size);
    this.miniBatch = new Uint32Array(this.size);
    this.start = new Float64Array(this.size);
    this.cost = new Float64Array(this.size);
    this.until = new Float64Array(this.size);
    this.bubble = new Float64Array(this.size);
    // What the ranks do, added up over them.
    this.time = {sequences: 0, padding: 0, fixed: 0, bubble: 0, waiting: 0};
    // How much of it they pay for what they exchange.
    this.exchanging = 0;
    this.addUp(plan.leader);
    this.miniBatches = [];
    this.duration = 0;
    let first = 0;
    for (const slots of plan.microbatchesPerRank ?? []) {
      this.placeMiniBatch(first, slots);
      first += slots * ranks;
    }
    for (let m = 0; m < this.size; ++m) {
      this.time.bubble += this.bubble[m];
      this.time.waiting += this.waiting(m);
    }
  }

  // The ranks that share the tokens of micro-batch m.
  sizeOf(m) {
    return this.groupSize ? this.groupSize[m] : this.contextParallel;
  }

  // What a sequence of so many tokens costs each of the ranks that share micro-batch m, where the row
  // has the first `shared` of them already.
  ofSequence(tokens, m, shared = 0) {
    return this.perSequence + this.ofTokens(shared, tokens, m);
  }

  // What its tokens from place `from` up to `to` cost.
  ofTokens(from, to, m) {
    const size = this.sizeOf(m);
    return this.perToken * (to - from) / size +
        this.perTokenSquared * (to * to - from * from) / size + this.exchangeOf(to, m, from);
  }

  // How much of that is for the tokens that the others hold.
  exchangeOf(to, m, from = 0) {
    const size = this.sizeOf(m);
    if (size === 1) return 0;
    const entry = this.exchange.find(({upToSize}) => !upToSize || size <= upToSize);
    const exchange = (entry?.perToken ?? 0) * (to - from) * (size - 1) / size;
    const attention = this.perTokenSquared * (to * to - from * from) / size;
    return Math.max(0, exchange - (this.exchangeOverlaps ? attention : 0));
  }

  // How many first tokens of sequence i stand in its row already.
  sharedOf(i) {
    return this.shared ? this.shared[i] : 0;
  }

  // What the row of micro-batch m lays of sequence i, in order: first the tokens that later sequences
  // of the row have too, if there are any, then its own. `length` is that of the whole sequence.
  piecesOf(m, i) {
    const length = this.lengths[i];
    const from = this.sharedOf(i);
    const useful = this.ofSequence(length, m, from);
    const padding = this.ofSequence(this.computed(m, i), m, from) - useful;
    const fork = i + 1 < this.end[m] ? this.sharedOf(i + 1) : 0;
    if (fork <= from) return [{tokens: length - from, length, cost: useful + padding, padding}];
    const common = this.ofTokens(from, fork, m);
    return [
      {tokens: fork - from, length, cost: common, padding: 0, isCommon: true},
      {tokens: length - fork, length, cost: useful - common + padding, padding},
    ];
  }

  // The tokens that are computed for sequence i of micro-batch m.
  computed(m, i) {
    if (this.padded) return this.widths[m];
    // A row of shared tokens aligns no sequence.
    if (this.shared) return this.lengths[i];
    const multiple = this.multipleOf(m);
    return Math.ceil(this.lengths[i] / multiple) * multiple;
  }

  // What micro-batch m rounds lengths up to a multiple of.
  multipleOf(m) {
    if (!this.groupSize || this.groupSize[m] === 1) return this.multiple;
    return leastCommonMultiple(this.multiple, 2 * this.groupSize[m] * this.sequenceParallel);
  }

  // Whether micro-batch m is the first rank's of those that run it together, of which `from` is the
  // first that is seen.
  leads(m, from = 0) {
    return !this.groupSize || this.rank[m] === Math.max(this.groupFirst[m], from);
  }

  // How long the rank waits for slower ranks after micro-batch m; rounding errors are no waiting.
  waiting(m) {
    const waiting = this.until[m] - this.start[m] - this.cost[m] - this.bubble[m];
    return waiting > 1e-9 * this.duration ? waiting : 0;
  }

  // When the bubble after micro-batch m begins: where the ranks meet after every slot, once all of
  // them are through the last.
  bubbleStart(m) {
    return this.accumulated ? this.start[m] + this.cost[m] : this.until[m] - this.bubble[m];
  }

  sequences(m) {
    return this.end[m] - this.begin[m];
  }

  trueTokens(m) {
    let tokens = 0;
    for (let i = this.begin[m]; i < this.end[m]; ++i) tokens += this.lengths[i];
    return tokens;
  }

  // Of these, what its row has already where a sequence needs it.
  sharedTokens(m) {
    let tokens = 0;
    for (let i = this.begin[m]; i < this.end[m]; ++i) tokens += this.sharedOf(i);
    return tokens;
  }

  scheduledTokens(m) {
    return this.padded ? this.widths[m] * this.sequences(m) : this.widths[m];
  }

  // {sequences, padding, fixed} of micro-batch m; exchanging is how much of these is exchange.
  parts(m) {
    const parts = {sequences: 0, padding: 0, fixed: this.perMicrobatch, exchanging: 0};
    let tail = this.widths[m];
    for (let i = this.begin[m]; i < this.end[m]; ++i) {
      const computed = this.computed(m, i);
      const shared = this.sharedOf(i);
      const useful = this.ofSequence(this.lengths[i], m, shared);
      parts.sequences += useful;
      parts.padding += this.ofSequence(computed, m, shared) - useful;
      parts.exchanging += this.exchangeOf(computed, m, shared);
      tail -= computed - shared;
    }
    if (!this.padded) parts.padding += this.perToken / this.sizeOf(m) * Math.max(0, tail);
    return parts;
  }

  // `leader`, where groups differ in size: which of those that run a micro-batch together is the
  // first rank's, and stands before the others.
  addUp(leader) {
    const known = [];
    for (let m = 0; m < this.size; ++m) {
      const parts = leader && leader[m] !== m ? known[leader[m]] : this.parts(m);
      known.push(parts);
      this.cost[m] = parts.sequences + parts.padding + parts.fixed;
      for (const key of ['sequences', 'padding', 'fixed']) this.time[key] += parts[key];
      this.exchanging += parts.exchanging;
    }
  }

  // The micro-batches from `first` on: for each rank, `slots` of them.
  placeMiniBatch(first, slots) {
    const start = this.duration;
    const miniBatch = {first, slots, start, end: start, parts: this.partsOf(first, slots)};
    for (const part of miniBatch.parts) this.placePart(miniBatch, part);
    this.miniBatches.push(miniBatch);
    if (this.pipeline && slots > 0) this.addBubbles(miniBatch);
    miniBatch.end = this.duration;
  }

  // The ranks `from` up to `to`.
  placePart({first, slots, start}, {from, to}) {
    const at = (rank, slot) => first + rank * slots + slot;
    let begin = start;
    for (let slot = 0; slot < slots; ++slot) {
      let end = begin;
      for (let rank = from; rank < to; ++rank) {
        const m = at(rank, slot);
        this.rank[m] = rank;
        this.slot[m] = slot;
        this.miniBatch[m] = this.miniBatches.length;
        this.start[m] = this.accumulated && slot > 0 ? this.freeAt(first, slots, rank, slot) : begin;
        this.until[m] = this.start[m] + this.cost[m];
        end = Math.max(end, this.until[m]);
      }
      for (let rank = from; this.groupSize && this.accumulated && slot > 0 && rank < to; ++rank) {
        this.until[at(rank, slot - 1)] = this.start[at(rank, slot)];
      }
      // Where the ranks meet, all of them go on together.
      if (this.accumulated && slot < slots - 1) continue;
      begin = end;
      for (let rank = from; rank < to; ++rank) this.until[at(rank, slot)] = end;
    }
    this.duration = Math.max(this.duration, begin);
  }

  // The parts of the pool that share no group in any slot, where these run by themselves; else all
  // ranks as one.
  partsOf(first, slots) {
    const all = [{from: 0, to: this.ranks}];
    if (!this.apart || slots === 0) return all;
    const begins = [];
    for (let rank = 0; rank < this.ranks; ++rank) {
      const own = this.groupFirst.slice(first + rank * slots, first + (rank + 1) * slots);
      if (own.every((groupFirst) => groupFirst === rank)) begins.push(rank);
    }
    if (begins.length * slots * this.pipeline.virtualStages > 2 ** 24) return all;
    return begins.map((from, part) => ({from, to: begins[part + 1] ?? this.ranks}));
  }

  // When the last of those that run a micro-batch together is through the slot before.
  freeAt(first, slots, rank, slot) {
    if (!this.groupSize) return this.until[first + rank * slots + slot - 1];
    const m = first + rank * slots + slot;
    // The group's first rank has looked at all of them.
    if (!this.leads(m)) return this.start[first + this.groupFirst[m] * slots + slot];
    let last = 0;
    for (let other = 0; other < this.groupSize[m]; ++other) {
      const before = first + (this.groupFirst[m] + other) * slots + slot - 1;
      last = Math.max(last, this.start[before] + this.cost[before]);
    }
    return last;
  }

  // What the pipelines take longer than their busiest stages compute.
  addBubbles(miniBatch) {
    const {first, slots, start, parts} = miniBatch;
    const run = new PipelineRun(this.pipeline, slots);
    const begins = new Set(parts.map(({from}) => from));
    let longest = 0;
    for (let rank = 0; rank < this.ranks; ++rank) {
      const last = first + (rank + 1) * slots - 1;
      if (this.accumulated || begins.has(rank)) run.run(this.costsOnPipeline(miniBatch, rank));
      const busy = run.costs.reduce((sum, each) => sum + each, 0);
      this.bubble[last] = Math.max(0, run.makespan - busy);
      longest = Math.max(longest, run.makespan);
    }
    this.duration = start + longest;
    for (let rank = 0; rank < this.ranks; ++rank) {
      this.until[first + (rank + 1) * slots - 1] = this.duration;
    }
  }

  // What the micro-batches of a rank take, one slot after the other: where the ranks of its part meet
  // after every slot, what the costliest of the slot takes.
  costsOnPipeline({first, slots, parts}, rank) {
    const costs = this.cost.slice(first + rank * slots, first + (rank + 1) * slots);
    if (this.accumulated) return costs;
    const {from, to} = parts.find((part) => rank < part.to);
    for (let m = first + from * slots; m < first + to * slots; ++m) {
      const slot = (m - first) % slots;
      costs[slot] = Math.max(costs[slot], this.cost[m]);
    }
    return costs;
  }

  // What the stages of `rank` do in a mini-batch that has micro-batches, as a PipelineRun.
  pipelineRun(miniBatch, rank) {
    const run = new PipelineRun(this.pipeline, miniBatch.slots);
    run.run(this.costsOnPipeline(miniBatch, rank));
    return run;
  }

  // The rank that waits least for the others.
  slowestRank() {
    const waiting = new Float64Array(this.ranks);
    for (let m = 0; m < this.size; ++m) waiting[this.rank[m]] += this.waiting(m);
    return waiting.indexOf(waiting.reduce((least, each) => Math.min(least, each), Infinity));
  }

  // The micro-batch that `rank` runs, or waits after, at `time`; -1 if there is none.
  find(rank, time) {
    const miniBatch = this.miniBatches.find(({start, end}) => time >= start && time < end);
    if (!miniBatch || rank < 0 || rank >= this.ranks) return -1;
    const begin = miniBatch.first + rank * miniBatch.slots;
    for (let m = begin; m < begin + miniBatch.slots; ++m) {
      if (time < this.until[m]) return m;
    }
    return -1;
  }

  // The sequence of micro-batch m that is computed at `time`; in the padded layout, where all are
  // at once, the one at `down` of the box's height, from 0 to 1. -1 if there is none.
  sequenceAt(m, time, down) {
    let rest = time - this.start[m] - this.perMicrobatch;
    if (rest < 0 || time > this.start[m] + this.cost[m]) return -1;
    const n = this.sequences(m);
    if (this.padded) return this.begin[m] + Math.min(n - 1, Math.floor(down * n));
    for (let i = this.begin[m]; i < this.end[m]; ++i) {
      rest -= this.ofSequence(this.computed(m, i), m, this.sharedOf(i));
      if (rest < 0) return i;
    }
    return -1;
  }

  // Where the micro-batch of another slot (and of its neighbour mini-batch) or rank is; m itself at
  // the edges.
  neighbour(m, slots, ranks) {
    const {first, slots: own} = this.miniBatches[this.miniBatch[m]];
    const rank = Math.min(this.ranks - 1, Math.max(0, this.rank[m] + ranks));
    const slot = this.slot[m] + slots;
    if (slot >= 0 && slot < own) return first + rank * own + slot;
    const next = this.miniBatches[this.miniBatch[m] + Math.sign(slots)];
    if (!next || next.slots === 0) return m;
    return next.first + rank * next.slots + (slots > 0 ? 0 : next.slots - 1);
  }
}

function leastCommonMultiple(a, b) {
  let [x, y] = [a, b];
  while (y > 0) [x, y] = [y, x % y];
  return a / x * b;
}

// A pass whose groups differ in size, with a micro-batch of its own for each rank of a group, by
// mini-batch, rank and slot. Those of a group have the same sequences, `begin` up to `end`; `leader`
// is the one of its first rank.
function withOwnRows(plan, ranks) {
  const own = {
    ...plan, rowWidths: [], groupSize: [], groupFirst: [], begin: [], end: [], leader: [],
  };
  let next = 0;
  let start = 0;
  for (const slots of plan.microbatchesPerRank) {
    // By slot and rank, the group and its first rank.
    const groups = [];
    for (let slot = 0; slot < slots; ++slot) {
      const row = [];
      while (row.length < ranks) {
        const first = row.length;
        for (let k = 0; k < plan.contextSizes[next]; ++k) row.push({m: next, first});
        ++next;
      }
      groups.push(row);
    }
    for (let rank = 0; rank < ranks; ++rank) {
      for (const [slot, row] of groups.entries()) {
        const {m, first} = row[rank];
        own.begin.push(plan.microbatchOffsets[m]);
        own.end.push(plan.microbatchOffsets[m + 1]);
        own.leader.push(start + first * slots + slot);
        own.rowWidths.push(plan.rowWidths[m]);
        own.groupSize.push(plan.contextSizes[m]);
        own.groupFirst.push(first);
      }
    }
    start += ranks * slots;
  }
  return own;
}

// The pass at `index` of a PlanBatchResponse to a PlanBatchRequest.
function placePass(request, response, index) {
  const {topology, passes, pipeline, synchronization} = request;
  const {padded, forwardOnly} = passes[index];
  const plan = response.passes[index];
  const differ = plan.contextSizes?.length > 0;
  const ranks = topology.dataParallel * (differ ? topology.contextParallel : 1);
  // On pipelines, groups that differ in size are predicted as if they met after every slot: all of
  // them, or accumulated those of each part of the pool.
  const inLockstep = differ && topology.pipelineParallel > 1;
  const accumulates = synchronization === 'SYNCHRONIZATION_ACCUMULATED';
  return new Placement(differ ? withOwnRows(plan, ranks) : plan, {
    ranks,
    padded: Boolean(padded),
    accumulated: accumulates && !inLockstep,
    apart: accumulates && inLockstep,
    costs: response.costModelUsed,
    contextParallel: topology.contextParallel,
    sequenceParallel: topology.sequenceParallel ? topology.tensorParallel : 1,
    pipeline: topology.pipelineParallel > 1 ?
        new Pipeline(topology, pipeline, Boolean(forwardOnly)) :
        null,
  });
}
