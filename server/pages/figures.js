'use strict';

// The figures of a plan, in words and numbers.

const LAYOUTS = {packed: 'packed rows', padded: 'padded rows'};

// "SHARDING_DEAL_BINS" of type "SHARDING" as "deal bins"; '' if it is not set.
function enumName(value, type) {
  if (!value || value.endsWith('_UNSPECIFIED')) return '';
  return value.slice(type.length + 1).toLowerCase().replaceAll('_', ' ');
}

function topologyText(topology) {
  const sizes = [
    ['DP', topology.dataParallel], ['CP', topology.contextParallel],
    ['TP', topology.tensorParallel], ['PP', topology.pipelineParallel],
    ['VPP', topology.virtualPipeline],
  ];
  const parts = sizes.filter(([name, size]) => name === 'DP' || size > 1)
                    .map(([name, size]) => `${name} ${count(size)}`);
  return parts.join(' × ') + (topology.sequenceParallel ? ', sequence parallel' : '') +
      poolText(topology);
}

// Where groups differ in size, what they are of.
function poolText({dataParallel, contextParallel, dynamicContext}) {
  if (!dynamicContext) return '';
  const ranks = (dataParallel || 1) * (contextParallel || 1);
  const {minSize, maxSize} = dynamicContext;
  return `, a pool of ${countOf(ranks, 'rank')} in groups of ${count(minSize || 1)} to ` +
      count(maxSize || ranks);
}

// What lengths are rounded up to a multiple of.
function multipleText(topology, plan) {
  const multiple = count(plan.lengthMultiple);
  if (!topology.dynamicContext) return multiple;
  const shards = topology.sequenceParallel ? topology.tensorParallel : 1;
  return `${multiple}, in groups of c ranks also of ${count(2 * shards)} c`;
}

// What a micro-batch may hold; where groups differ in size, so many tokens on so many ranks.
function budgetText({dynamicContext, contextParallel}, {maxTokensPerMicrobatch}) {
  const on = dynamicContext ? `on ${countOf(contextParallel || 1, 'rank')}` : 'a micro-batch';
  return `${countOf(maxTokensPerMicrobatch, 'token')} ${on}`;
}

// Text that stays on one line.
function unbroken(text) {
  return text.replaceAll(' ', '\u00a0');
}

// How many micro-batches have a group of which size, the largest first; '' where all are alike.
function groupsText(sizes = []) {
  const groups = new Map();
  for (const size of sizes) groups.set(size, (groups.get(size) ?? 0) + 1);
  return [...groups].sort(([a], [b]) => b - a)
      .map(([size, groups]) => unbroken(`${count(groups)} of ${countOf(size, 'rank')}`))
      .join(', ');
}

// What made the micro-batches of the mini-batches: 'balanced, verl'.
function methodsText(decisions = []) {
  return [...new Set(decisions.map(({method}) => method))].join(', ');
}

// Of a single mini-batch, the step time with each number of slots that was tried:
// '2: 101.2, 3: 100.8'.
function triedText(decisions = []) {
  if (decisions.length !== 1) return '';
  return (decisions[0].tried ?? [])
      .map(({slots, stepTime}) => unbroken(`${count(slots)}: ${cost(stepTime)}`))
      .join(', ');
}

// By how much the predicted step time exceeds its lower bound; '' if there is no bound.
function aboveBound(metrics) {
  const {predictedStepTime: time, lowerBoundStepTime: bound} = metrics;
  if (!(bound > 0)) return '';
  const part = 100 * Math.max(0, time / bound - 1);
  return `${part.toLocaleString('en-US', {minimumFractionDigits: 2, maximumFractionDigits: 2})}%`;
}

function scheduleText({interleaved, forwardOnly}) {
  if (forwardOnly) return 'forwards alone';
  return interleaved ? 'interleaved 1F1B' : '1F1B';
}

// What is known of the pipeline itself.
function pipelineFigures(pipeline) {
  return [
    ['schedule', scheduleText(pipeline)],
    ['chunks a stage', pipeline.interleaved ? count(pipeline.chunks) : ''],
    ['micro-batches a group', pipeline.interleaved ? count(pipeline.groupSize) : ''],
    ['backward / forward', pipeline.forwardOnly ? '' : cost(pipeline.backwardRatio)],
    ['busiest stage', pipeline.equal ? '' : `${percent(pipeline.share)} of the model`],
    ['transfer', pipeline.transfer > 0 ? cost(pipeline.transfer) : ''],
  ];
}

// The slots of a pool, whose micro-batches are as many as it has groups: no bound of theirs compares.
function slotsFigure(decisions, {miniBatches}) {
  const slots = miniBatches.reduce((all, {slots}) => all + slots, 0);
  const fewest = decisions.length === miniBatches.length ?
      decisions.reduce((all, {fewestSlots}) => all + fewestSlots, 0) : 0;
  return {
    label: slots === fewest ? 'slots, certified' : fewest > 0 ? `slots, bound ${count(fewest)}` : 'slots',
    value: count(slots),
    meaning: 'Each divides the ranks of the pool into groups; no plan within the constraints can ' +
        'have fewer than the bound',
    good: slots === fewest,
  };
}

// The few numbers that people look for first; `good` marks one that can't be better.
function headlineFigures({metrics = {}, decisions = []}, placement) {
  const total = placement.duration * placement.ranks;
  const bubble = {
    label: 'pipeline bubble',
    value: percent(metrics.pipelineBubble),
    meaning: 'Of the time that the slowest rank’s pipeline takes, or where ranks meet after every ' +
        'slot that of the slots’ costliest micro-batches, the share in which its busiest stage ' +
        'has nothing to do',
  };
  return [
    {
      label: 'step efficiency',
      value: percent(metrics.stepEfficiency),
      meaning: 'Ideal over predicted step time: how near the step is to one without padding of ' +
          'rows and without waiting',
    },
    {
      label: 'above the bound',
      value: aboveBound(metrics) || percent(0),
      meaning: 'By how much the predicted step time exceeds a proven bound: no plan within the ' +
          'constraints can gain more' +
          (placement.pipeline ? '. Of bubbles it knows little' : ''),
      good: metrics.predictedStepTime <= metrics.lowerBoundStepTime,
    },
    ...(placement.pipeline ? [bubble] : []),
    {
      label: 'waiting',
      value: percent(total > 0 ? placement.time.waiting / total : 0),
      meaning: 'The share of the ranks’ time in which they wait for slower ranks',
    },
    {
      label: 'padding removed',
      value: percent(metrics.paddingRemoved),
      meaning: 'Of the tokens that padding every sequence to the longest would compute',
    },
    {
      label: 'bin utilization',
      value: percent(metrics.binUtilization),
      meaning: 'How full of tokens the micro-batches are, without padding, against their budget',
    },
    placement.groupSize ? slotsFigure(decisions, placement) : {
      label: metrics.certifiedOptimal ?
          'micro-batches, certified' :
          `micro-batches, bound ${count(metrics.lowerBoundMicrobatches)}`,
      value: count(metrics.microbatches),
      meaning: metrics.certifiedOptimal ? 'Proven to be the fewest possible' :
                                          'No plan within the constraints can have fewer than the bound',
      good: metrics.certifiedOptimal,
    },
  ];
}

// What exchanging keys and values takes of the ranks' time; '' where nothing is exchanged.
function exchangeText({exchanging, duration, ranks}) {
  return exchanging > 0 ? percent(exchanging / (duration * ranks)) : '';
}

// The same as slotsFigure in a row.
function slotsRow(decisions, placement) {
  if (!placement.groupSize) return ['slots', ''];
  const {label, value} = slotsFigure(decisions ?? [], placement);
  return [label, value];
}

// Everything, by theme: [title, [[label, value], ...]].
function allFigures(request, response, pass, plan, origin, placement) {
  const {pipeline} = placement;
  const {metrics = {}} = plan;
  const layout = pass.padded ? 'padded' : 'packed';
  const options = pass[layout] ?? {};
  const shares = plan.sharedTokens?.length > 0;
  const algorithm = [
    ['preset', request.preset || 'balanced'],
    ['layout', LAYOUTS[layout]],
    ['packer', enumName(options.packer, 'PACKER')],
    ['row padding', enumName(options.rows, 'ROW_PADDING')],
    ['scan', enumName(options.scan, 'SCAN')],
    ['sharding', enumName(pass.sharding, 'SHARDING')],
    ['order', enumName(pass.order, 'MICROBATCH_ORDER')],
  ];
  const figures = [
    ['Step time, in cost units', [
      ['predicted', cost(metrics.predictedStepTime)],
      ['lower bound', cost(metrics.lowerBoundStepTime)],
      ['above the bound', aboveBound(metrics)],
      ['ideal', cost(metrics.idealStepTime)],
      ['ideal / predicted', percent(metrics.stepEfficiency)],
      ['pipeline bubble', pipeline ? percent(metrics.pipelineBubble) : ''],
      ['exchange', exchangeText(placement) && `${exchangeText(placement)} of the time`],
    ]],
    ['Pipeline', pipeline ? pipelineFigures(pipeline) : []],
    ['Balance', [
      ['rank cost, max / mean', ratio(metrics.rankCostImbalance)],
      ['rank tokens, max / mean', ratio(metrics.rankTokenImbalance)],
      ['bin balance', ratio(metrics.binBalance)],
    ]],
    ...loadFigures(metrics.loads, pass.limits),
    ['Micro-batches', [
      ['micro-batches', count(metrics.microbatches)],
      ['groups', groupsText(plan.contextSizes)],
      ['made by', methodsText(plan.decisions)],
      ['slots, and their step time', triedText(plan.decisions)],
      ['lower bound', placement.groupSize ? '' : count(metrics.lowerBoundMicrobatches)],
      ['certified fewest', placement.groupSize ? '' : metrics.certifiedOptimal ? 'yes' : 'no'],
      slotsRow(plan.decisions, placement),
      ['bin utilization', percent(metrics.binUtilization)],
      ['packing efficiency', percent(metrics.packingEfficiency)],
    ]],
    ['Tokens', [
      ['true', count(metrics.trueTokens)],
      ['aligned', shares ? '' : count(metrics.alignedTokens)],
      ['laid', shares ? count(metrics.laidTokens) : ''],
      ['laid at least', shares ? count(metrics.uniqueTokens) : ''],
      ['scheduled', count(metrics.scheduledTokens)],
      ['naive, all padded', count(metrics.naiveTokens)],
      ['padding removed', percent(metrics.paddingRemoved)],
    ]],
    ['Job', [
      ['topology', topologyText(request.topology)],
      ['budget', budgetText(request.topology, pass)],
      ['length multiple', multipleText(request.topology, plan)],
      ['synchronization', enumName(request.synchronization, 'SYNCHRONIZATION')],
      ['truncated', excluded(response, 'EXCLUSION_REASON_TRUNCATED')],
      ['dropped', excluded(response, 'EXCLUSION_REASON_DROPPED')],
      ['above the budget, alone', excluded(response, 'EXCLUSION_REASON_ALONE')],
    ]],
    ['What waits', waitingFigures(request, response, metrics)],
    ['Algorithm', algorithm],
    ['Plan', [
      ['planner', `batchplan ${response.plannerVersion}`],
      ['planned', origin.where],
      ['planning time', planningTime(response.planningTime)],
      ['verified', origin.verified ? 'yes' : ''],
      ['fingerprint', response.fingerprint],
    ]],
  ];
  return figures.map(([title, rows]) => [title, rows.filter(([, value]) => value)])
      .filter(([, rows]) => rows.length > 0);
}

// Of each load, what a micro-batch has of it, and how the ranks differ.
function loadFigures(loads = [], limits = []) {
  return loads.map(({load, largest, mean, rankImbalance, separateTime}) => {
    const limit = limits.find((one) => one.load === load);
    return [`Load: ${load}`, [
      ['largest micro-batch', cost(largest)],
      ['limit', limit ? cost(limit.maxPerMicrobatch) : ''],
      ['mean micro-batch', cost(mean)],
      ['ranks, max / mean', ratio(rankImbalance)],
      ['its phase', separateTime > 0 ? cost(separateTime) : ''],
    ]];
  });
}

// "1.25s", as protobuf writes a duration, as "1,250 ms".
function planningTime(duration) {
  return duration ? `${cost(parseFloat(duration) * 1000)} ms` : '';
}

// Of a plan of some of what waits, of ages, and of mini-batches that exchange sequences.
function waitingFigures(request, response, metrics) {
  const length = (mean) => mean > 0 ? `${cost(mean)} tokens` : '';
  const {selection, miniBatches} = request;
  const aged = metrics.meanAge > 0 || selection?.maxAge > 0;
  const delays = miniBatches?.maxDelay > 0;
  return [
    ['deferred', selection ? countOf(response.deferred?.length ?? 0, 'sequence') : ''],
    ['expired', excluded(response, 'EXCLUSION_REASON_EXPIRED')],
    ['mean length, trained', selection ? length(metrics.meanLengthTaken) : ''],
    ['mean length, deferred', selection ? length(metrics.meanLengthDeferred) : ''],
    ['mean age', aged ? `${ratio(metrics.meanAge)}, at most ${count(metrics.largestAge)}` : ''],
    ['in another mini-batch', delays ? percent(metrics.movedShare) : ''],
    ['mean delay', delays ? `${ratio(metrics.meanDelay)} mini-batches` : ''],
  ];
}

function excluded(response, reason) {
  const number = (response.excluded ?? []).filter((sequence) => sequence.reason === reason).length;
  return number > 0 ? countOf(number, 'sequence') : '';
}

// The picture in two sentences.
function summaryText(placement) {
  const {time, duration, ranks, miniBatches, pipeline} = placement;
  if (placement.size === 0) return 'The plan has no micro-batches.';
  const slots = miniBatches.map((miniBatch) => miniBatch.slots);
  const least = slots.reduce((a, b) => Math.min(a, b));
  const most = slots.reduce((a, b) => Math.max(a, b));
  const each = least === most ? countOf(most, 'micro-batch', 'micro-batches') :
                                `${count(least)} to ${count(most)} micro-batches`;
  const batches = countOf(slots.length, 'mini-batch', 'mini-batches');
  const whole = duration * ranks;
  const share = (part) => percent(whole > 0 ? part / whole : 0);
  const fixed = time.fixed > 0 ? `, ${share(time.fixed)} the fixed cost of micro-batches` : '';
  const stages = pipeline ? ` of ${countOf(pipeline.stages, 'stage')} each` : '';
  const whose = pipeline ? 'the time of the ranks’ busiest stages' : 'the ranks’ time';
  const bubbles = pipeline ? `, ${share(time.bubble)} in bubbles` : '';
  return `${countOf(placement.lengths.length, 'sequence')} on ${countOf(ranks, 'rank')}${stages}, ` +
      `in ${batches} of ${each} a rank. Of ${whose}, ${share(time.sequences)} is spent on ` +
      `sequences, ${share(time.padding)} on padding${fixed}${bubbles}, and ` +
      `${share(time.waiting)} waiting.` +
      (placement.loadsCost ? ' What loads cost is not in the picture.' : '');
}

// One rank's pipeline in a sentence or two. `runs`, a PipelineRun for each mini-batch.
function pipelineText({pipeline, accumulated}, rank, runs) {
  const sum = (values) => values.reduce((all, value) => all + value, 0);
  const takes = sum(runs.map((run) => run.makespan));
  const bubble = takes - sum(runs.map((run) => sum(run.costs)));
  const whose = accumulated ? `Rank ${count(rank)}’s pipeline` :
                              'The pipeline of every slot’s costliest micro-batches';
  const stage = pipeline.equal ? 'each stage' : 'the busiest stage';
  const chunks = pipeline.interleaved ? ` of ${countOf(pipeline.chunks, 'chunk')} each` : '';
  return `${countOf(pipeline.stages, 'stage')}${chunks}, ${scheduleText(pipeline)}. ${whose} takes ` +
      `${cost(takes)}; ${stage} has nothing to do for ` +
      `${percent(takes > 0 ? Math.max(0, bubble) / takes : 0)} of that.`;
}
