'use strict';

// The page of one plan: figures, the picture, and a tab for each pass.

const request = pageData('request');
const response = pageData('response');
const origin = pageData('origin');
const explorer = new Explorer();

function showPass(index) {
  const plan = response.passes[index];
  const placement = placePass(request, response, index);
  for (const [k, tab] of [...byId('passes').children].entries()) {
    tab.setAttribute('aria-selected', String(k === index));
    tab.tabIndex = k === index ? 0 : -1;
  }
  byId('headline').replaceChildren(
      ...headlineFigures(plan.metrics ?? {}, placement).map(headlineTile));
  byId('figures').replaceChildren(
      ...allFigures(request, response, request.passes[index], plan, origin)
          .flatMap(([title, rows]) => [element('h3', '', title), figureList(rows)]));
  explorer.show(placement);
}

function headlineTile({label, value, meaning, good}) {
  const tile =
      element('li', '', element('strong', good ? 'good' : '', value), element('span', '', label));
  tile.title = meaning;
  return tile;
}

function figureList(rows) {
  return element('dl', '', ...rows.flatMap(([label, value]) => [
    element('dt', '', label), element('dd', label === 'fingerprint' ? 'mono' : '', value),
  ]));
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
}

start();
