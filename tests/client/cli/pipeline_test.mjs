// What the stages of a pipeline take by the page's own simulation, against times that are known.
//
//   node pipeline_test.mjs <server/pages>

import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';
import test from 'node:test';
import vm from 'node:vm';

const [pages] = process.argv.slice(2);
const {Pipeline, PipelineRun} = vm.runInThisContext(
    `${readFileSync(`${pages}/pipeline.js`)}; ({Pipeline, PipelineRun})`);

function makePipeline(stages, chunks, {forwardOnly = false, ...options} = {}) {
  return new Pipeline({pipelineParallel: stages, virtualPipeline: chunks}, {
    groupSize: stages, backwardRatio: 2, transfer: 0,
    stageShares: Array.from({length: stages * chunks}, () => 1), ...options,
  }, forwardOnly);
}

// Of micro-batches that cost as much on the busiest stage.
const makespan = (pipeline, costs) => new PipelineRun(pipeline, costs.length).run(costs);

test('of alike micro-batches the textbooks’ makespans', () => {
  // Forward 1 and backward 2 a stage: (m + p - 1)(f + b), the bubble divided by the chunks.
  assert.equal(makespan(makePipeline(4, 1), new Array(8).fill(3)), 33);
  assert.equal(makespan(makePipeline(4, 2), new Array(8).fill(3)), 28.5);
  assert.equal(makespan(makePipeline(4, 4), new Array(16).fill(3)), 48 + 9 / 4);
  assert.equal(makespan(makePipeline(3, 1, {forwardOnly: true}), new Array(4).fill(2)), 12);
});

test('a transfer delays and keeps nobody busy', () => {
  // There and back between two stages.
  assert.equal(makespan(makePipeline(2, 1, {transfer: 10}), [3]), 6 + 20);
  // Stage 0 runs its second forward meanwhile: 0 to 1, 1 to 2; stage 1 from 11 to 14 and on to 17.
  assert.equal(makespan(makePipeline(2, 1, {transfer: 10}), [3, 3]), 17 + 10 + 2);
});

test('the stage with most of the model is the busiest', () => {
  const pipeline = makePipeline(2, 1, {stageShares: [1, 3]});
  assert.equal(pipeline.share, 0.75);
  // Forwards of 1 and 3, backwards of 2 and 6.
  assert.equal(makespan(pipeline, [9]), 12);
  assert.equal(makespan(pipeline, [9, 9]), 1 + 2 * 9 + 2);
  assert.equal(makePipeline(2, 2, {stageShares: [1, 2, 1, 4]}).share, 0.75);
});

test('without micro-batches nothing runs', () => {
  assert.equal(makespan(makePipeline(4, 2), []), 0);
});
