'use strict';

// The picture of one plan with what belongs to it on the page: its summary in words, the legend,
// what is under the pointer, enlarging a part, and the stages of one rank's pipeline.

const MOST_LISTED = 8;

const byId = (id) => document.getElementById(id);

class Explorer {
  constructor() {
    this.timeline = new Timeline(byId('timeline'));
    this.lanes = new Lanes(byId('lanes'));
    // Those that have something to show.
    this.shown = [];
    this.tooltip = byId('tooltip');
    // Where the pointer went down: {timeline, x, y}.
    this.dragFrom = null;
    for (const timeline of [this.timeline, this.lanes]) this.listenTo(timeline);
    this.listenToPage();
  }

  show(placement) {
    byId('summary').textContent = summaryText(placement);
    fillShares(byId('shares'), placement.time, placement.duration * placement.ranks || 1);
    byId('legend').replaceChildren(...legendEntries(placement));
    byId('hint').hidden = placement.size === 0;
    byId('reset').hidden = true;
    const {canvas} = this.timeline;
    canvas.hidden = placement.size === 0;
    canvas.setAttribute('aria-label', 'Micro-batches of every rank over time. ' +
        'The arrow keys go from one to the next.');
    const lanes = placement.pipeline !== null && placement.size > 0;
    byId('pipeline').hidden = !lanes;
    byId('above').hidden = !lanes;
    this.shown = lanes ? [this.timeline, this.lanes] : [this.timeline];
    const rank = lanes ? placement.slowestRank() : null;
    this.timeline.chosen = rank;
    this.timeline.show(placement);
    if (!lanes) return;
    this.lanes.show(placement, rank);
    byId('pipeline_legend').replaceChildren(...laneEntries(placement));
    byId('pipeline_rank').max = placement.ranks - 1;
    this.describeRank();
  }

  // Shows the stages of `rank`, if there is such a rank.
  chooseRank(rank) {
    if (rank >= 0 && rank < this.timeline.placement.ranks) {
      this.showTooltip(null);
      this.timeline.chosen = rank;
      this.timeline.draw();
      this.lanes.choose(rank);
    }
    this.describeRank();
  }

  describeRank() {
    const {lanes: {placement, rank, runs}} = this;
    byId('pipeline_rank').value = rank;
    byId('pipeline_summary').textContent = pipelineText(placement, rank, runs.filter(Boolean));
  }

  listenTo(timeline) {
    const {canvas} = timeline;
    canvas.addEventListener('pointerdown', (event) => {
      this.dragFrom = {timeline, ...this.point(timeline, event)};
    });
    canvas.addEventListener('pointermove', (event) => this.pointAt(timeline, event));
    canvas.addEventListener('pointerleave', () => this.showTooltip(null));
    canvas.addEventListener('blur', () => this.showTooltip(null));
    canvas.addEventListener('keydown', (event) => this.pressKey(timeline, event));
    canvas.addEventListener('dblclick', () => this.showAll());
    redrawWithPage(timeline);
  }

  listenToPage() {
    addEventListener('pointerup', (event) => {
      if (!this.dragFrom) return;
      const {timeline} = this.dragFrom;
      this.release(timeline, this.dragFrom, this.point(timeline, event));
      this.dragFrom = null;
    });
    byId('reset').addEventListener('click', () => this.showAll());
    byId('pipeline_rank').addEventListener('change', (event) => {
      this.chooseRank(Math.floor(event.target.valueAsNumber));
    });
  }

  showAll() {
    for (const timeline of this.shown) timeline.showAll();
    byId('reset').hidden = true;
  }

  // A drag enlarges, of all pictures the same times; a click on a rank shows its stages.
  release(timeline, from, to) {
    const clicked = Math.abs(to.x - from.x) < 4 && Math.abs(to.y - from.y) < 4;
    if (clicked && timeline === this.timeline && this.shown.includes(this.lanes) &&
        timeline.inPlot(to)) {
      this.chooseRank(Math.floor(timeline.rowAt(to.y)));
      return;
    }
    timeline.enlarge(from, to);
    for (const other of this.shown) {
      if (other !== timeline) other.follow(timeline);
    }
    byId('reset').hidden = this.shown.every((each) => each.showsAll());
  }

  point({canvas}, event) {
    const {left, top} = canvas.getBoundingClientRect();
    return {x: event.clientX - left, y: event.clientY - top};
  }

  pointAt(timeline, event) {
    const at = this.point(timeline, event);
    const dragging = this.dragFrom?.timeline === timeline && event.buttons === 1;
    this.showTooltip(dragging ? null : timeline.at(at), event.clientX, event.clientY);
    if (dragging) timeline.select(this.dragFrom, at);
  }

  // Shows the tooltip for `found`, of one of the timelines, near a point of the window; null hides
  // it.
  showTooltip(found, x, y) {
    const {timeline, tooltip} = this;
    const {m, stage, n} = timeline.hovered ?? {};
    if (found?.m !== m || found?.stage !== stage || found?.n !== n) {
      for (const each of this.shown) each.mark(found);
    }
    tooltip.hidden = !found;
    if (!found) return;
    const {placement} = timeline;
    tooltip.replaceChildren(element('strong', '', placeText(placement, found.m)),
                            tableOf(foundRows(placement, found)),
                            tableOf(sequenceRows(placement, found)));
    const {width, height} = tooltip.getBoundingClientRect();
    const right = x + 16 + width < innerWidth ? x + 16 : x - 16 - width;
    tooltip.style.left = `${Math.max(8, right)}px`;
    tooltip.style.top = `${Math.max(8, Math.min(y + 16, innerHeight - height - 8))}px`;
  }

  pressKey(timeline, event) {
    const {placement, hovered} = timeline;
    const moves =
        {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]};
    if (event.key === 'Escape') this.showTooltip(null);
    if (!moves[event.key] || placement.size === 0) return;
    event.preventDefault();
    this.speak(timeline, timeline.next(hovered, ...moves[event.key]));
  }

  // What the keyboard has gone to, for eyes and for screen readers.
  speak(timeline, found) {
    const {placement} = timeline;
    const [box] = timeline.frames(found);
    const canvas = timeline.canvas.getBoundingClientRect();
    this.showTooltip(found, canvas.left + box.x0, canvas.top + box.y1);
    byId('spoken').textContent = `${placeText(placement, found.m)}: ` +
        foundRows(placement, found).map(([label, value]) => `${label} ${value}`).join(', ');
  }
}

// Keeps a timeline as wide as its place, and in the current colours.
function redrawWithPage(timeline) {
  new ResizeObserver(() => timeline.draw()).observe(timeline.canvas.parentElement);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => timeline.draw());
}

function legendEntry(paint, text) {
  return element('li', '', element('span', `swatch ${paint}`), text);
}

function legendEntries(placement) {
  const {shortest, longest, lengths, shared, time, groupSize} = placement;
  const range = shortest < longest ? `${count(shortest)} to ${count(longest)}` : count(longest);
  return [
    lengths.length > 0 && legendEntry('paint_lengths', `sequences of ${range} tokens`),
    shared?.some((tokens) => tokens > 0) &&
        legendEntry('paint_shared', 'shared by the sequences above a line, computed once'),
    time.padding > 0 && legendEntry('paint_padding', 'padding'),
    time.fixed > 0 && legendEntry('paint_fixed', 'fixed cost of a micro-batch'),
    time.bubble > 0 && legendEntry('paint_bubble', 'bubbles of the pipeline'),
    time.waiting > 0 && legendEntry('paint_waiting', 'waiting'),
    groupSize?.some((size) => size > 1) &&
        legendEntry('paint_group', 'a box with this edge is of all the ranks that it covers'),
  ].filter(Boolean);
}

// Of the stages of a rank.
function laneEntries({pipeline, time}) {
  const darker = pipeline.chunks > 1 ? ', darker for later chunks' : '';
  return [
    legendEntry('paint_forward', `forwards${darker}`),
    !pipeline.forwardOnly && legendEntry('paint_backward', `backwards${darker}`),
    time.bubble > 0 && legendEntry('paint_bubble', 'bubbles'),
    time.waiting > 0 && legendEntry('paint_waiting', 'waiting for other ranks'),
  ].filter(Boolean);
}

// What is known of what the pointer or the keyboard is at, as [label, value] rows.
function foundRows(placement, found) {
  if (found.stage === undefined) return microbatchRows(placement, found.m);
  return [...workRows(placement, found), ...tokenRows(placement, found.m)];
}

// Of a forward or backward on a stage.
function workRows({pipeline, duration}, {stage, chunk, backward, start, end, takes}) {
  const waiting = end - start - takes;
  return [
    [backward ? 'backward on' : 'forward on', `stage ${count(stage)}`],
    ...(pipeline.chunks > 1 ? [['chunk', count(chunk)]] : []),
    ['begins at', cost(start)],
    ['takes', cost(takes)],
    ...(waiting > 1e-9 * duration ? [['waiting after it', cost(waiting)]] : []),
  ];
}

// Of a micro-batch on its rank.
function microbatchRows(placement, m) {
  const {pipeline} = placement;
  const bubble = placement.bubble[m] > 0 ? [['bubble after it', cost(placement.bubble[m])]] : [];
  const waiting = [...bubble, ['waiting after it', cost(placement.waiting(m))]];
  if (placement.sequences(m) === 0) return [...tokenRows(placement, m), ...waiting];
  const stage = pipeline?.equal ? 'a stage' : 'the busiest stage';
  const label = pipeline ? `cost on ${stage}` : 'cost';
  return [[label, cost(placement.cost[m])], ...waiting, ...tokenRows(placement, m)];
}

// Of what a micro-batch holds.
function tokenRows(placement, m) {
  if (placement.sequences(m) === 0) return [['sequences', 'none']];
  return [
    ['sequences', count(placement.sequences(m))],
    ['true tokens', count(placement.trueTokens(m))],
    ...(placement.shared ? [['shared tokens', count(placement.sharedTokens(m))]] : []),
    ['scheduled tokens', count(placement.scheduledTokens(m))],
    [placement.padded ? 'padded width' : 'row width', count(placement.widths[m])],
  ];
}

// A window of the list of sequences, around the one pointed at.
function sequenceRows(placement, {m, sequence}) {
  const begin = placement.begin[m];
  const end = placement.end[m];
  const first = Math.max(begin, Math.min(end - MOST_LISTED, Math.max(begin, sequence - 3)));
  const last = Math.min(end, first + MOST_LISTED);
  const rows = [];
  if (first > begin) rows.push([`${count(first - begin)} before`, '…']);
  for (let i = first; i < last; ++i) {
    const name = placement.indices.length > 0 ? `sequence ${placement.indices[i]}` : 'sequence';
    const shared = placement.sharedOf(i);
    const tokens = count(placement.lengths[i]) + (shared > 0 ? `, ${count(shared)} shared` : '');
    rows.push([name, tokens, i === sequence]);
  }
  if (last < end) rows.push([`${count(end - last)} after`, '…']);
  return rows;
}

function placeText(placement, m) {
  const miniBatch = placement.miniBatches.length > 1 ?
      `mini-batch ${count(placement.miniBatch[m])}, ` : '';
  const first = placement.groupSize ? placement.groupFirst[m] : placement.rank[m];
  const last = first + (placement.groupSize ? placement.groupSize[m] : 1) - 1;
  const ranks = last > first ? `ranks ${count(first)} to ${count(last)}` : `rank ${count(first)}`;
  return `${miniBatch}${ranks}, slot ${count(placement.slot[m])}`;
}

function tableOf(rows) {
  return element('table', '', ...rows.map(([label, value, here]) => element(
      'tr', here ? 'here' : '', element('td', '', label), element('td', '', value))));
}
