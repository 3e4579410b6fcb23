'use strict';

// A plan in full: its figures, the picture, and a tab for each pass.

class PlanView {
  constructor(request, response, origin, sentences) {
    Object.assign(this, {request, response, origin, sentences, explorer: new Explorer()});
    this.listPasses();
    if (response.passes.length > 0) this.showPass(0);
  }

  showPass(index) {
    const {request, response, origin} = this;
    const plan = response.passes[index];
    const placement = placePass(request, response, index);
    for (const [k, tab] of [...byId('passes').children].entries()) {
      tab.setAttribute('aria-selected', String(k === index));
      tab.tabIndex = k === index ? 0 : -1;
    }
    byId('headline').replaceChildren(
        ...headlineFigures(plan, placement).map(headlineTile));
    byId('figures').replaceChildren(
        ...allFigures(request, response, request.passes[index], plan, origin, placement)
            .flatMap(([title, rows]) => [element('h3', '', title), figureList(rows)]));
    this.showSentences(index);
    this.explorer.show(placement);
  }

  // Why ranks wait in a pass, and why sequences do.
  showSentences(index) {
    const waiting = this.sentences.waiting[index] ?? [];
    const {deferral} = this.sentences;
    const items = (sentences) => sentences.map((sentence) => element('li', '', sentence));
    byId('why').hidden = waiting.length + deferral.length === 0;
    byId('waiting').replaceChildren(...items(waiting));
    byId('why_title').hidden = waiting.length === 0;
    byId('deferral').replaceChildren(...items(deferral));
    byId('deferral_title').hidden = deferral.length === 0;
  }

  listPasses() {
    const tabs = byId('passes');
    if (this.response.passes.length < 2) return;
    tabs.hidden = false;
    for (const [index, {name}] of this.response.passes.entries()) {
      const tab = element('button', '', name || `pass ${index}`);
      tab.type = 'button';
      tab.setAttribute('role', 'tab');
      tab.setAttribute('aria-controls', 'pass');
      tab.addEventListener('click', () => this.showPass(index));
      tabs.append(tab);
    }
    tabs.addEventListener('keydown', (event) => {
      const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
      const next = step && tabs.children[[...tabs.children].indexOf(event.target) + step];
      if (next) next.click(), next.focus();
    });
    byId('pass').setAttribute('role', 'tabpanel');
  }
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
