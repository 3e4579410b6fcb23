'use strict';

// The page of one plan: figures, the picture, and what is under the pointer.

const request = pageData('request');
const response = pageData('response');
const origin = pageData('origin');
const byId = (id) => document.getElementById(id);
const timeline = new Timeline(byId('timeline'));
const MOST_LISTED = 8;

function placementOf(index) {
  return new Placement(response.passes[index], {
    ranks: request.topology.dataParallel,
    padded: Boolean(request.passes[index].padded),
    accumulated: request.synchronization === 'SYNCHRONIZATION_ACCUMULATED',
    costs: response.costModelUsed,
  });
}

function showPass(index) {
  const plan = response.passes[index];
  const placement = placementOf(index);
  for (const [k, tab] of [...byId('passes').children].entries()) {
    tab.setAttribute('aria-selected', String(k === index));
    tab.tabIndex = k === index ? 0 : -1;
  }
  byId('headline').replaceChildren(
      ...headlineFigures(plan.metrics ?? {}, placement).map(({label, value, meaning, good}) => {
        const tile = element(
            'li', '', element('strong', good ? 'good' : '', value), element('span', '', label));
        tile.title = meaning;
        return tile;
      }));
  byId('figures').replaceChildren(
      ...allFigures(request, response, request.passes[index], plan, origin)
          .flatMap(([title, rows]) => [element('h3', '', title), figureList(rows)]));
  byId('summary').textContent = summaryText(placement);
  fillShares(byId('shares'), placement.time, placement.duration * placement.ranks || 1);
  byId('timeline').hidden = placement.size === 0;
  timeline.show(placement);
  showLegend(placement);
  byId('timeline').setAttribute('aria-label', 'Micro-batches of every rank over time. ' +
      'The arrow keys go from one to the next.');
  byId('hint').hidden = placement.size === 0;
  byId('reset').hidden = true;
}

function figureList(rows) {
  return element('dl', '', ...rows.flatMap(([label, value]) => [
    element('dt', '', label), element('dd', label === 'fingerprint' ? 'mono' : '', value),
  ]));
}

function showLegend(placement) {
  const entry = (paint, text) =>
      element('li', '', element('span', `swatch ${paint}`), text);
  const {shortest, longest} = timeline;
  const entries = [];
  if (placement.lengths.length > 0) {
    const range = shortest < longest ? `${count(shortest)} to ${count(longest)}` : count(longest);
    entries.push(entry('paint_lengths', `sequences of ${range} tokens`));
  }
  const {padding, fixed, waiting} = placement.time;
  if (padding > 0) entries.push(entry('paint_padding', 'padding'));
  if (fixed > 0) entries.push(entry('paint_fixed', 'fixed cost of a micro-batch'));
  if (waiting > 0) entries.push(entry('paint_waiting', 'waiting'));
  byId('legend').replaceChildren(...entries);
}

// What is known of micro-batch m, as [label, value] rows.
function microbatchRows(placement, m) {
  const rows = [
    ['cost', cost(placement.cost[m])],
    ['waiting after it', cost(placement.waiting(m))],
    ['sequences', count(placement.sequences(m))],
    ['true tokens', count(placement.trueTokens(m))],
    ['scheduled tokens', count(placement.scheduledTokens(m))],
    [placement.padded ? 'padded width' : 'row width', count(placement.widths[m])],
  ];
  return placement.sequences(m) > 0 ? rows : [['empty', 'no sequences'], rows[1]];
}

function sequenceRows(placement, {m, sequence}) {
  const begin = placement.offsets[m];
  const end = placement.offsets[m + 1];
  // A window of the list around the sequence pointed at.
  const first = Math.max(begin, Math.min(end - MOST_LISTED, Math.max(begin, sequence - 3)));
  const last = Math.min(end, first + MOST_LISTED);
  const rows = [];
  if (first > begin) rows.push([`${count(first - begin)} before`, '…']);
  for (let i = first; i < last; ++i) {
    rows.push([`sequence ${count(placement.indices[i])}`, count(placement.lengths[i]),
               i === sequence]);
  }
  if (last < end) rows.push([`${count(end - last)} after`, '…']);
  return rows;
}

function placeText(placement, m) {
  const miniBatch = placement.miniBatches.length > 1 ?
      `mini-batch ${count(placement.miniBatch[m])}, ` : '';
  return `${miniBatch}rank ${count(placement.rank[m])}, slot ${count(placement.slot[m])}`;
}

function table(rows) {
  return element('table', '', ...rows.map(([label, value, here]) => element(
      'tr', here ? 'here' : '', element('td', '', label), element('td', '', value))));
}

// Shows the tooltip for `found`, {m, sequence}, near a point of the window; null hides it.
function showTooltip(found, x, y) {
  const tooltip = byId('tooltip');
  if (found?.m !== timeline.hovered?.m) timeline.mark(found);
  tooltip.hidden = !found;
  if (!found) return;
  const {placement} = timeline;
  tooltip.replaceChildren(element('strong', '', placeText(placement, found.m)),
                          table(microbatchRows(placement, found.m)),
                          table(sequenceRows(placement, found)));
  const {width, height} = tooltip.getBoundingClientRect();
  const right = x + 16 + width < innerWidth ? x + 16 : x - 16 - width;
  tooltip.style.left = `${Math.max(8, right)}px`;
  tooltip.style.top = `${Math.max(8, Math.min(y + 16, innerHeight - height - 8))}px`;
}

function speak(m) {
  const {placement} = timeline;
  const box = timeline.box(m);
  const canvas = byId('timeline').getBoundingClientRect();
  showTooltip({m, sequence: -1}, canvas.left + box.x0, canvas.top + box.y1);
  byId('spoken').textContent = `${placeText(placement, m)}: ` +
      microbatchRows(placement, m).map(([label, value]) => `${label} ${value}`).join(', ');
}

function listen() {
  const canvas = byId('timeline');
  const point = (event) => {
    const {left, top} = canvas.getBoundingClientRect();
    return {x: event.clientX - left, y: event.clientY - top};
  };
  let from = null;
  canvas.addEventListener('pointerdown', (event) => { from = point(event); });
  canvas.addEventListener('pointermove', (event) => {
    const at = point(event);
    const dragging = from && event.buttons === 1;
    showTooltip(dragging ? null : timeline.at(at), event.clientX, event.clientY);
    if (dragging) timeline.select(from, at);
  });
  addEventListener('pointerup', (event) => {
    if (!from) return;
    timeline.enlarge(from, point(event));
    from = null;
    byId('reset').hidden = timeline.showsAll();
  });
  canvas.addEventListener('pointerleave', () => showTooltip(null));
  canvas.addEventListener('blur', () => showTooltip(null));
  const showAll = () => {
    timeline.showAll();
    byId('reset').hidden = true;
  };
  canvas.addEventListener('dblclick', showAll);
  byId('reset').addEventListener('click', showAll);

  const moves = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]};
  canvas.addEventListener('keydown', (event) => {
    const {placement, hovered} = timeline;
    if (event.key === 'Escape') showTooltip(null);
    if (!moves[event.key] || placement.size === 0) return;
    event.preventDefault();
    speak(hovered ? placement.neighbour(hovered.m, ...moves[event.key]) : 0);
  });
  new ResizeObserver(() => timeline.draw()).observe(canvas.parentElement);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => timeline.draw());
}

function listPasses() {
  const tabs = byId('passes');
  if (response.passes.length < 2) return;
  tabs.hidden = false;
  for (const [index, {name}] of response.passes.entries()) {
    const tab = element('button', '', name || `pass ${index}`);
    tab.type = 'button';
    tab.setAttribute('role', 'tab');
    tab.setAttribute('aria-controls', 'pass');
    tab.addEventListener('click', () => showPass(index));
    tabs.append(tab);
  }
  tabs.addEventListener('keydown', (event) => {
    const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    const next = step && tabs.children[[...tabs.children].indexOf(event.target) + step];
    if (next) next.click(), next.focus();
  });
  byId('pass').setAttribute('role', 'tabpanel');
}

function start() {
  if (request.jobId) {
    byId('job').textContent = `${request.jobId}, step ${count(request.step)}`;
    document.title = `Batch plan: ${byId('job').textContent}`;
  }
  listPasses();
  if (response.passes.length > 0) showPass(0);
  listen();
}

start();
