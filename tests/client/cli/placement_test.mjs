// Where the page of a plan puts micro-batches in time, against the planner's own step time.
//
//   node placement_test.mjs <batchplan> <placement.js>

import assert from 'node:assert/strict';
import {spawnSync} from 'node:child_process';
import {readFileSync} from 'node:fs';
import test from 'node:test';
import vm from 'node:vm';

const [program, script] = process.argv.slice(2);
const {Placement, placePass} =
    vm.runInThisContext(`${readFileSync(script, 'utf8')}; ({Placement, placePass})`);

function placeWith(flags) {
  const lengths = Array.from({length: 96}, (unused, i) => 1 + i * i * 7919 % 500).join('\n');
  const result = spawnSync(
      program,
      ['plan', '--lengths', '-', '--dp', '4', '--budget', '512', '--preset', 'nemo_rl_packing',
       '--cost', '1,0.01,7,5', '--format', 'html', ...flags],
      {input: lengths, encoding: 'utf8'});
  assert.equal(result.status, 0, result.stderr);
  const data = (id) => JSON.parse(result.stdout.match(`id="${id}">(.*?\n?)</script>`)[1]);
  const response = data('response');
  return {plan: response.passes[0], placement: placePass(data('request'), response, 0)};
}

const near = (a, b) => assert.ok(Math.abs(a - b) <= 1e-9 * Math.abs(b), `${a} is not ${b}`);

for (const flags of [
  [], ['--sync', 'accumulated'], ['--mini_batch_size', '32', '--rows', 'capacity'],
  ['--mini_batch_size', '32', '--sync', 'accumulated', '--length_multiple', '16'],
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

test('a padded micro-batch computes its width for every sequence, an empty one the fixed cost', () => {
  const plan = {
    sequenceIndex: [0, 1, 2], sequenceLengths: [5, 3, 2], microbatchOffsets: [0, 2, 2, 3, 3],
    microbatchesPerRank: [2], rowWidths: [8, 0, 4, 0], lengthMultiple: 4,
  };
  const costs = {perToken: 1, perTokenSquared: 0, perMicrobatch: 3, perSequence: 2};
  const placement = new Placement(plan, {ranks: 2, padded: true, accumulated: false, costs});
  assert.deepEqual([...placement.cost], [23, 3, 9, 3]);
  assert.deepEqual(placement.time, {sequences: 16, padding: 10, fixed: 12, waiting: 14});
  assert.equal(placement.duration, 26);
});
