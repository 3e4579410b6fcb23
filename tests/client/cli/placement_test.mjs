// Where the page of a plan puts micro-batches in time, against the planner's own step time.
//
//   node placement_test.mjs <batchplan> <server/pages>

import assert from 'node:assert/strict';
import {spawnSync} from 'node:child_process';
import {readFileSync} from 'node:fs';
import test from 'node:test';
import vm from 'node:vm';

const [program, pages] = process.argv.slice(2);
const scripts = ['pipeline.js', 'placement.js'].map((name) => readFileSync(`${pages}/${name}`));
const {Placement, placePass} = vm.runInThisContext(`${scripts.join('')}; ({Placement, placePass})`);

// What is planned, on 4 ranks.
const LENGTHS = Array.from({length: 96}, (unused, i) => 1 + i * i * 7919 % 500);

// The plan of the command, placed.
function place(flags, input) {
  const result = spawnSync(program, ['plan', ...flags, '--format', 'html'],
                           {input, encoding: 'utf8'});
  assert.equal(result.status, 0, result.stderr);
  const data = (id) => JSON.parse(result.stdout.match(`id="${id}">(.*?\n?)</script>`)[1]);
  const response = data('response');
  return {plan: response.passes[0], placement: placePass(data('request'), response, 0)};
}

const placeWith = (flags) => place(
    ['--lengths', '-', '--dp', '4', '--budget', '512', '--preset', 'nemo_rl_packing', '--cost',
     '1,0.01,7,5', ...flags],
    LENGTHS.join('\n'));

// Of a request that has such fields.
const placeRequest = ({topology, pass, ...fields}) => place(['--request', '-'], JSON.stringify({
  manifest: {lengths: LENGTHS},
  topology: {dataParallel: 4, ...topology},
  costModel: {perToken: 1, perTokenSquared: 0.01, perMicrobatch: 7, perSequence: 5},
  passes: [{maxTokensPerMicrobatch: 512, ...pass}],
  ...fields,
}));

const near = (a, b) => assert.ok(Math.abs(a - b) <= 1e-9 * Math.abs(b), `${a} is not ${b}`);

for (const flags of [
  [], ['--sync', 'accumulated'], ['--mini_batch_size', '32', '--rows', 'capacity'],
  ['--mini_batch_size', '32', '--sync', 'accumulated', '--length_multiple', '16'],
  ['--cp', '4'],
  ['--cp', '4', '--exchange', '2:9,0:0.5'],
  ['--cp', '4', '--exchange', '4:3', '--exchange_overlaps'],
]) {
  test(`the step takes what the planner predicts: ${flags.join(' ')}`, () => {
    const {plan, placement} = placeWith(flags);
    near(placement.duration, plan.metrics.predictedStepTime);
    const {sequences, padding, fixed, waiting} = placement.time;
    near(sequences + padding + fixed + waiting, 4 * placement.duration);
    near(fixed, 7 * plan.metrics.microbatches);
  });

  test(`every micro-batch is found where it stands: ${flags.join(' ')}`, () => {
    const {placement} = placeWith(flags);
    for (let m = 0; m < placement.size; ++m) {
      const middle = placement.start[m] + placement.cost[m] / 2;
      assert.equal(placement.find(placement.rank[m], middle), m);
      const right = placement.neighbour(m, 1, 0);
      if (right !== m) near(placement.start[right], placement.until[m]);
    }
  });
}

// Groups of six that begin with 300 tokens, of which some have more in common.
const SHARING = {
  manifest: {
    lengths: LENGTHS.map((length) => 300 + length),
    sharedPrefixes: LENGTHS.map((unused, i) => i % 6 === 0 ? 0 : i % 6 === 5 ? 301 : 300),
    sharedWith: LENGTHS.map((unused, i) => i % 6 === 5 ? i - 1 : i - i % 6),
  },
  pass: {maxTokensPerMicrobatch: 2048},
};
for (const fields of [
  {}, {synchronization: 'SYNCHRONIZATION_ACCUMULATED'},
  {topology: {contextParallel: 2}, pass: {...SHARING.pass, lengthMultiple: 16}},
]) {
  test(`what sequences share is computed once: ${JSON.stringify(fields)}`, () => {
    const {plan, placement} = placeRequest({...SHARING, ...fields});
    near(placement.duration, plan.metrics.predictedStepTime);
    const {sequences, padding, fixed, waiting} = placement.time;
    near(sequences + padding + fixed + waiting, 4 * placement.duration);
    let laid = 0;
    let common = 0;
    for (let m = 0; m < placement.size; ++m) {
      let row = 0;
      let takes = placement.perMicrobatch;
      for (let i = placement.begin[m]; i < placement.end[m]; ++i) {
        for (const piece of placement.piecesOf(m, i)) {
          row += piece.tokens;
          takes += piece.cost;
          common += piece.isCommon ? piece.tokens : 0;
        }
        const middle = takes - placement.ofTokens(placement.sharedOf(i), placement.lengths[i], m) / 2;
        assert.equal(placement.sequenceAt(m, placement.start[m] + middle, 0), i);
      }
      laid += row;
      near(placement.trueTokens(m) - placement.sharedTokens(m), row);
      const tail = placement.widths[m] - row;
      near(takes + placement.perToken * tail / placement.contextParallel, placement.cost[m]);
    }
    assert.equal(laid, Number(plan.metrics.laidTokens));
    assert.ok(common > 0);
  });
}

const LOCKSTEP = 'SYNCHRONIZATION_LOCKSTEP';
const ACCUMULATED = 'SYNCHRONIZATION_ACCUMULATED';

// Requests of a pool of ranks whose groups differ in size.
const POOL = {dataParallel: 4, contextParallel: 2, dynamicContext: {}};
const COSTS = {perToken: 1, perTokenSquared: 0.01, perMicrobatch: 300, perSequence: 5};
const EXCHANGE = [{upToSize: 2, perToken: 0.1}, {upToSize: 0, perToken: 0.4}];
const POOLS = {
  'in lockstep': {},
  'accumulated': {synchronization: ACCUMULATED},
  'six ranks': {topology: {...POOL, dataParallel: 3}},
  'six ranks, accumulated': {
    topology: {...POOL, dataParallel: 3}, synchronization: ACCUMULATED, pass: {maxTokensPerMicrobatch: 340},
  },
  'sequence parallel': {topology: {...POOL, tensorParallel: 2, sequenceParallel: true}},
  'mini-batches': {miniBatches: {size: 32}},
  'mini-batches, accumulated': {miniBatches: {size: 32}, synchronization: ACCUMULATED},
  'pipelines': {topology: {...POOL, pipelineParallel: 2}},
  'pipelines that share no group': {
    topology: {...POOL, pipelineParallel: 3, dynamicContext: {minSize: 2, maxSize: 2}},
    pass: {maxTokensPerMicrobatch: 500}, alike: true,
  },
  'interleaved pipelines in lockstep': {
    topology: {...POOL, pipelineParallel: 2, virtualPipeline: 2}, synchronization: LOCKSTEP,
  },
  'exchange that attention hides': {costModel: {...COSTS, exchange: EXCHANGE, exchangeOverlaps: true}},
  'lengths in multiples of 24': {pass: {lengthMultiple: 24}},
  'as Megatron-LM divides it': {preset: 'megatron_dynamic_cp', synchronization: ACCUMULATED},
};

for (const [name, {alike = false, ...request}] of Object.entries(POOLS)) {
  test(`a pool takes what the planner predicts: ${name}`, () => {
    const {plan, placement} = placeRequest({
      topology: POOL, costModel: {...COSTS, exchange: EXCHANGE}, ...request,
      pass: {maxTokensPerMicrobatch: 240, ...request.pass},
    });
    assert.equal(new Set(plan.contextSizes).size === 1, alike);
    near(placement.duration, plan.metrics.predictedStepTime);
    const {sequences, padding, fixed, bubble, waiting} = placement.time;
    near(sequences + padding + fixed + bubble + waiting, placement.ranks * placement.duration);
    assert.ok(placement.exchanging > 0 && placement.exchanging < sequences + padding);
    // However many ranks a sequence is on, it stands there once.
    assert.equal(placement.lengths.length, LENGTHS.length);
    const tokens = [...placement.begin.keys()].reduce(
        (sum, m) => sum + placement.trueTokens(m) / placement.sizeOf(m), 0);
    near(tokens, LENGTHS.reduce((sum, length) => sum + length));
    for (let m = 0; m < placement.size; ++m) {
      const middle = placement.start[m] + placement.cost[m] / 2;
      assert.equal(placement.find(placement.rank[m], middle), m);
      const first = placement.find(placement.groupFirst[m], middle);
      assert.equal(placement.start[first], placement.start[m]);
      assert.equal(placement.begin[first], placement.begin[m]);
      const right = placement.neighbour(m, 1, 0);
      if (right !== m) near(placement.start[right], placement.until[m]);
    }
  });
}

test('a group begins once the last of its ranks is free, and pays for what it exchanges', () => {
  const plan = {
    sequenceLengths: [10, 4, 8], microbatchOffsets: [0, 1, 2, 3], microbatchesPerRank: [2],
    rowWidths: [10, 4, 8], lengthMultiple: 1, contextSizes: [1, 1, 2],
    sequenceIndex: [0, 1, 2],
  };
  const request = {
    topology: {dataParallel: 2, contextParallel: 1, dynamicContext: {}}, passes: [{}],
    synchronization: ACCUMULATED,
  };
  const placement = placePass(request, {
    passes: [plan], costModelUsed: {perToken: 1, exchange: [{upToSize: 0, perToken: 0.5}]},
  }, 0);
  // By rank and slot.
  assert.deepEqual([...placement.cost], [10, 6, 4, 6]);
  assert.deepEqual([...placement.start], [0, 10, 0, 10]);
  assert.equal(placement.exchanging, 4);
  assert.deepEqual(placement.time, {sequences: 26, padding: 0, fixed: 0, bubble: 0, waiting: 6});
});
const PIPELINES = {
  '1F1B': {preset: 'nemo_rl_packing', topology: {pipelineParallel: 4}},
  '1F1B in lockstep': {
    preset: 'nemo_rl_packing', topology: {pipelineParallel: 4}, synchronization: LOCKSTEP,
  },
  'unequal stages on context-parallel ranks': {
    topology: {pipelineParallel: 2, contextParallel: 2},
    pipeline: {stageShares: [2, 3], backwardRatio: 1.5},
  },
  'transfers': {
    topology: {pipelineParallel: 3}, pipeline: {transfer: 40}, miniBatches: {size: 32},
  },
  'interleaved': {preset: 'verl', topology: {pipelineParallel: 4, virtualPipeline: 2}},
  'interleaved in longer groups in lockstep': {
    topology: {pipelineParallel: 2, virtualPipeline: 3}, synchronization: LOCKSTEP,
    pipeline: {groupSize: 3, stageShares: [1, 2, 1, 1, 3, 1], transfer: 9}, miniBatches: {size: 48},
  },
  'forwards alone': {topology: {pipelineParallel: 4}, pass: {forwardOnly: true}},
  'interleaved forwards alone': {
    topology: {pipelineParallel: 2, virtualPipeline: 2}, pipeline: {transfer: 5},
    pass: {forwardOnly: true},
  },
  'padded micro-batches': {preset: 'nemo_rl_dynamic', topology: {pipelineParallel: 4}},
};

// The last micro-batch of each rank in a mini-batch.
const lastOf = ({first, slots}) =>
    Array.from({length: 4}, (unused, rank) => first + (rank + 1) * slots - 1);

for (const [name, request] of Object.entries(PIPELINES)) {
  test(`a pipeline takes what the planner predicts: ${name}`, () => {
    const {plan, placement} = placeRequest(request);
    near(placement.duration, plan.metrics.predictedStepTime);
    const {sequences, padding, fixed, bubble, waiting} = placement.time;
    near(sequences + padding + fixed + bubble + waiting, 4 * placement.duration);
    near(fixed, 7 * placement.pipeline.share * plan.metrics.microbatches);
  });

  test(`the slowest rank has the bubble that the planner predicts: ${name}`, () => {
    const {plan, placement} = placeRequest(request);
    const bubbles = placement.miniBatches.map((miniBatch) => {
      const waiting = lastOf(miniBatch).map((m) => placement.waiting(m));
      return placement.bubble[lastOf(miniBatch)[waiting.indexOf(Math.min(...waiting))]];
    });
    near(bubbles.reduce((sum, bubble) => sum + bubble) / placement.duration,
         plan.metrics.pipelineBubble);
  });

  test(`stages run their works one after the other, once they have come: ${name}`, () => {
    const {placement} = placeRequest(request);
    const {stages, virtualStages, transfer, forwardOnly} = placement.pipeline;
    for (const miniBatch of placement.miniBatches) {
      const run = placement.pipelineRun(miniBatch, 1);
      const ends = new Map();
      const key = (backward, microbatch, part) => `${backward} ${microbatch} ${part}`;
      for (let stage = 0; stage < stages; ++stage) {
        let free = 0;
        for (let n = 0; n < run.works; ++n) {
          const work = run.work(stage, n);
          const start = run.end(work) - run.duration(work);
          assert.ok(start > free - 1e-6, `stage ${stage} begins ${n} at ${start} before ${free}`);
          free = run.end(work);
          assert.equal(run.firstAfter(stage, (start + free) / 2), n);
          ends.set(key(work.backward, work.microbatch, work.virtualStage), free);
        }
        assert.equal(run.firstAfter(stage, free), run.works);
      }
      assert.equal(ends.size, miniBatch.slots * virtualStages * (forwardOnly ? 1 : 2));
      for (let i = 0; i < miniBatch.slots; ++i) {
        for (let part = 1; part < virtualStages; ++part) {
          const took = run.costs[i] * placement.pipeline.forward[part];
          assert.ok(ends.get(key(false, i, part)) - took >
              ends.get(key(false, i, part - 1)) + transfer - 1e-6);
          if (forwardOnly) continue;
          const back = run.costs[i] * placement.pipeline.backward[part - 1];
          assert.ok(ends.get(key(true, i, part - 1)) - back >
              ends.get(key(true, i, part)) + transfer - 1e-6);
        }
      }
    }
  });
}

test('the rank that is slowest waits for none', () => {
  const {placement} = placeWith(['--pp', '4', '--balance_on', 'tokens']);
  const waiting = lastOf(placement.miniBatches[0]).map((m) => placement.waiting(m));
  assert.equal(waiting[placement.slowestRank()], 0);
  assert.ok(Math.max(...waiting) > 0);
});

test('a padded micro-batch computes its width for every sequence, an empty one the fixed cost', () => {
  const plan = {
    sequenceIndex: [0, 1, 2], sequenceLengths: [5, 3, 2], microbatchOffsets: [0, 2, 2, 3, 3],
    microbatchesPerRank: [2], rowWidths: [8, 0, 4, 0], lengthMultiple: 4,
  };
  const costs = {perToken: 1, perTokenSquared: 0, perMicrobatch: 3, perSequence: 2};
  const placement = new Placement(plan, {ranks: 2, padded: true, accumulated: false, costs});
  assert.deepEqual([...placement.cost], [23, 3, 9, 3]);
  assert.deepEqual(placement.time, {sequences: 16, padding: 10, fixed: 12, bubble: 0, waiting: 14});
  assert.equal(placement.duration, 26);
});
