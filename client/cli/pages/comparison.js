'use strict';

// The page of a comparison: the table, best first, a small picture of each plan, and one in full.

const request = pageData('request');
const response = pageData('response');
const explorer = new Explorer();

// The rows that have a plan, in the order of the passes, then best first; the refused ones.
const planned = pageData('rows').filter((row) => !row.error);
const refused = pageData('rows').filter((row) => row.error);
for (const [index, row] of planned.entries()) {
  row.placement = placePass(request, response, index);
  row.time = row.metrics.predictedStepTime;
}
planned.sort((a, b) => b.best - a.best || a.time - b.time ||
    a.metrics.microbatches - b.metrics.microbatches);
const slowest = Math.max(...planned.map((row) => row.time));

// Shows the chosen candidate's plan in full.
function choose(chosen) {
  for (const row of planned) row.picture.setAttribute('aria-pressed', String(row === chosen));
  byId('picture_title').textContent = `${chosen.kind} ${chosen.candidate}`;
  explorer.show(chosen.placement);
}

// A size alone would not say of what.
function captionOf({kind, candidate}) {
  return kind === 'cp' ? `cp ${candidate}` : candidate;
}

function goTo(row) {
  choose(row);
  byId('picture').scrollIntoView({block: 'nearest'});
}

function milliseconds(number) {
  return `${number.toLocaleString('en-US', {maximumSignificantDigits: 2})} ms`;
}

// How much longer than the best.
function behindBest(row) {
  const best = planned[0].time;
  if (row === planned[0] || best === 0) return '';
  const more = 100 * (row.time / best - 1);
  return more === 0 ? 'same' : `+${more.toLocaleString('en-US', {maximumSignificantDigits: 2})}%`;
}

function bar({placement, time}) {
  const shares = element('div', 'shares');
  fillShares(shares, placement.time, placement.duration * placement.ranks || 1);
  shares.style.width = `${100 * time / (slowest || 1)}%`;
  return shares;
}

const COLUMNS = [
  {title: 'step time', value: (row) => cost(row.time)},
  {title: 'vs. best', value: behindBest},
  {title: 'above bound', value: (row) => aboveBound(row.metrics)},
  {title: 'efficiency', value: (row) => percent(row.metrics.stepEfficiency)},
  ...(planned.some((row) => row.pipelineBubble > 0) ?
      [{title: 'bubble', value: (row) => percent(row.pipelineBubble)}] : []),
  {
    title: 'micro-batches',
    value: ({metrics}) => count(metrics.microbatches) + (metrics.certifiedOptimal ? ' ✓' : ''),
  },
  {title: 'bin utilization', value: (row) => percent(row.binUtilization)},
  {title: 'padding removed', value: (row) => percent(row.paddingRemoved)},
  {title: 'rank imbalance', value: (row) => ratio(row.rankCostImbalance)},
  ...(planned.some(({placement}) => placement.exchanging > 0) ?
      [{title: 'exchange', value: ({placement}) => exchangeText(placement)}] : []),
  {title: 'planning', value: (row) => milliseconds(row.planningMilliseconds)},
];

function plannedRow(row) {
  const button = element('button', '', row.candidate);
  button.type = 'button';
  button.addEventListener('click', () => goTo(row));
  const name = element('td', 'name', button);
  if (row.best) name.append(element('span', 'badge', 'best'));
  name.append(element('span', 'kind', row.kind));
  return element('tr', row.best ? 'best' : '', name, element('td', 'wide', bar(row)),
                 ...COLUMNS.map(({value}) => element('td', '', value(row))));
}

function refusedRow(row) {
  const reason = element('td', 'reason', row.error.message);
  reason.colSpan = 1 + COLUMNS.length;
  return element(
      'tr', '', element('td', 'name', row.candidate, element('span', 'kind', row.kind)),
      reason);
}

function showTable() {
  const head = element('tr', '', element('th', 'name', 'candidate'),
                       element('th', 'name', 'step'),
                       ...COLUMNS.map(({title}) => element('th', '', title)));
  for (const cell of head.children) cell.scope = 'col';
  byId('candidates').replaceChildren(
      element('thead', '', head),
      element('tbody', '', ...planned.map(plannedRow), ...refused.map(refusedRow)));
  byId('bar_legend').replaceChildren(
      ...SHARES.filter(({key}) => planned.some(({placement}) => placement.time[key] > 0))
          .map(({paint, label}) =>
              element('li', '', element('span', `swatch ${paint}`), label)),
      element('li', 'quiet', '✓ the fewest micro-batches possible'));
}

function showSmallPictures() {
  const end = Math.max(...planned.map(({placement}) => placement.duration));
  for (const row of planned) {
    const canvas = element('canvas', '');
    canvas.setAttribute('aria-hidden', 'true');
    row.picture = element(
        'button', '',
        element('span', 'caption', element('span', '', captionOf(row)),
                element('span', 'quiet', row.best ? 'best' : behindBest(row))),
        canvas);
    row.picture.type = 'button';
    row.picture.addEventListener('click', () => goTo(row));
    byId('small').append(row.picture);
    const timeline = new Timeline(canvas, SMALL);
    timeline.show(row.placement, end);
    redrawWithPage(timeline);
  }
}

function start() {
  if (request.jobId) {
    byId('job').textContent = `${request.jobId}, step ${count(request.step)}`;
    document.title = `Planners compared: ${byId('job').textContent}`;
  }
  byId('batch').textContent = [
    countOf(planned[0].placement.lengths.length, 'sequence'),
    `${count(planned[0].metrics.trueTokens)} tokens`,
    topologyText(request.topology),
    budgetText(request.topology, request.passes[0]),
    enumName(request.synchronization, 'SYNCHRONIZATION'),
    `batchplan ${response.plannerVersion}`,
  ].join(' · ');
  showTable();
  showSmallPictures();
  choose(planned[0]);
}

start();
