// The last decisions, with a filter.

import {$, el, keyed, put} from './dom.js';
import {time, visible} from './format.js';
import {kindOf} from './answers.js';
import {explain} from './explain.js';

const kept = 200, shown = 60;
let all = [], number = 0;
const form = $('#filter');

export function drawLatest(latest) {
  for (const answer of latest) all.unshift({...answer, key: number++});
  all.length = Math.min(all.length, kept);
  if (!form.still.checked) draw();
}

function draw() {
  const text = form.text.value.trim().toLowerCase();
  const found = all.filter((a) => text === '' || [a.who, a.what, a.answer, a.rule].some((t) => t?.toLowerCase().includes(text))).slice(0, shown);
  keyed($('#latest .list'), found, (a) => a.key,
    (a) => el('div', {class: 'row answer k-' + kindOf(a.answer)}, el('span', {class: 'at'}, time(a.at)), el('i'), el('span', {class: 'word'}, a.answer.replaceAll('_', ' ')),
      el('button', {class: 'who', title: 'Explain', onclick: () => explain(a.who, a.what)}, visible(a.who || 'nobody')), el('span', {class: 'what'}, visible(a.what)), el('span', {class: 'by'}, a.rule ?? '')),
    () => {}, text === '' ? 'Nobody has come yet.' : 'Nothing here fits.');
  put($('#latest .list').parentElement.querySelector('h2 small'), 'up to 20 a second, this process');
}

form.addEventListener('input', draw);
form.addEventListener('submit', (e) => e.preventDefault());
