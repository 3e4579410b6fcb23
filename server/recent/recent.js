'use strict';

// The page of recent plans: the jobs, the picture of a late plan of one, and its last plans.

const {now, jobs, shown, plans} = pageData('recent');

const nameOf = (jobId) => jobId || '(no job id)';

// "now", "12 s ago", "3 min ago".
function age(time) {
  const seconds = Math.max(0, Math.round((now - time) / 1000));
  if (seconds < 1) return 'now';
  if (seconds < 120) return `${seconds} s ago`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min ago`;
  return `${Math.round(seconds / 3600)} h ago`;
}

function milliseconds(number) {
  return `${number.toLocaleString('en-US', {maximumSignificantDigits: 3})} ms`;
}

function microbatchesCell({microbatches, lowerBoundMicrobatches}) {
  return microbatches === lowerBoundMicrobatches ?
      `${count(microbatches)} ✓` :
      `${count(microbatches)} (bound ${count(lowerBoundMicrobatches)})`;
}

const FIGURES = [
  {title: 'bin utilization', value: (plan) => percent(plan.binUtilization)},
  {title: 'step efficiency', value: (plan) => percent(plan.stepEfficiency)},
  {title: 'padding removed', value: (plan) => percent(plan.paddingRemoved)},
  {title: 'micro-batches', value: microbatchesCell},
  {title: 'sequences', value: (plan) => count(plan.sequences)},
  {title: 'planning', value: (plan) => milliseconds(plan.planningMilliseconds)},
];

// Predicted beside measured: "790 ms (−2.7%)" is less than the step took.
function predictedCell({milliseconds: took, predictedMilliseconds: predicted}) {
  if (!(predicted > 0)) return '–';
  const error = predicted / took - 1;
  const sign = error < 0 ? '−' : '+';
  return `${milliseconds(predicted)} (${sign}${percent(Math.abs(error))})`;
}

// Of plans whose steps were reported.
const MEASURED_FIGURES = [
  {title: 'step took', value: (measured) => milliseconds(measured.milliseconds)},
  {title: 'predicted', value: predictedCell},
  {title: 'ranks waited', value: (measured) => percent(measured.waitedShare)},
].map(({title, value}) => ({title, value: ({measured}) => measured ? value(measured) : '–'}));

function fillTable(table, columns, rows) {
  const head = element('tr', '', ...columns.map(({title, name}) => {
    const cell = element('th', name ? 'name' : '', title);
    cell.scope = 'col';
    return cell;
  }));
  table.replaceChildren(element('thead', '', head), element('tbody', '', ...rows));
}

function jobRow(job) {
  const link = element('a', '', nameOf(job.jobId));
  link.href = `?job_id=${encodeURIComponent(job.jobId)}`;
  link.title = nameOf(job.jobId);
  const {latest, binUtilization: shares} = job;
  const label = `Bin utilization of the last ${countOf(shares.length, 'plan')}: ` +
      `${percent(Math.min(...shares))} to ${percent(Math.max(...shares))}`;
  const row = element(
      'tr', '', element('td', 'name', link), element('td', '', age(latest.time)),
      element('td', '', sparkline(shares, label)),
      ...FIGURES.map(({value}) => element('td', '', value(latest))));
  if (job.jobId === shown) row.setAttribute('aria-current', 'true');
  return row;
}

function planRow(plan, figures) {
  return element(
      'tr', '', element('td', 'name', count(plan.step)), element('td', '', age(plan.time)),
      element('td', '', plan.preset || 'balanced'),
      ...figures.map(({value}) => element('td', '', value(plan))));
}

function showJobs() {
  const columns = [{title: 'job', name: true}, {title: 'last plan'}, {title: ''}, ...FIGURES];
  fillTable(byId('jobs'), columns, jobs.map(jobRow));
}

function showPlans() {
  byId('plans_title').textContent = `Its last ${countOf(plans.length, 'plan')}`;
  const measured = plans.some((plan) => plan.measured);
  byId('measured_note').hidden = !measured;
  const figures = measured ? [...FIGURES, ...MEASURED_FIGURES] : FIGURES;
  const columns = [{title: 'step', name: true}, {title: 'planned'}, {title: 'preset'}, ...figures];
  fillTable(byId('plans'), columns, [...plans].reverse().map((plan) => planRow(plan, figures)));
}

function showPicture() {
  const drawn = byId('response') !== null;
  byId('plan').hidden = !drawn;
  byId('no_picture').hidden = drawn;
  if (!drawn) return;
  const request = pageData('request');
  byId('job_title').textContent = `${nameOf(shown)}, step ${count(request.step)}`;
  document.title = `Recent plans: ${byId('job_title').textContent}`;
  new PlanView(request, pageData('response'), pageData('origin'), pageData('sentences'));
}

// A line as small as a word, as the page's template has it: of `shares`, 0 to 1 each, the oldest
// first. `label` says the same to those who don't see it.
function sparkline(shares, label) {
  const picture = byId('sparkline').content.firstElementChild.cloneNode(true);
  const [ground, area, line, last] = picture.children;
  const [left, right, bottom] = ['x1', 'x2', 'y1'].map((name) => Number(ground.getAttribute(name)));
  const top = picture.viewBox.baseVal.height - bottom;
  const points = shares.map((share, i) => [
    shares.length > 1 ? left + (right - left) * i / (shares.length - 1) : right,
    bottom - (bottom - top) * Math.min(1, Math.max(0, share)),
  ]);
  const [first, end] = [points[0], points[points.length - 1]];
  const text = (corners) => corners.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(' ');
  area.setAttribute('points', text([[first[0], bottom], ...points, [end[0], bottom]]));
  line.setAttribute('points', text(points));
  last.setAttribute('cx', end[0]);
  last.setAttribute('cy', end[1]);
  picture.setAttribute('aria-label', label);
  return picture;
}

function start() {
  byId('time').textContent = `as of ${new Date(now).toISOString().slice(0, 19).replace('T', ' ')} UTC`;
  const any = jobs.length > 0;
  for (const id of ['jobs_card', 'job_title', 'plan', 'plans_card']) byId(id).hidden = !any;
  byId('nothing').hidden = any;
  if (!any) return;
  byId('job_title').textContent = nameOf(shown);
  showJobs();
  showPlans();
  showPicture();
}

start();
