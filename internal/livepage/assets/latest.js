// The last decisions, with a filter.

import {$, el, keyed} from './dom.js';
import {time, visible, words} from './format.js';
import {kindOf} from './answers.js';
import {explain} from './explain.js';

const kept = 200, shown = 60;
const form = $('#filter');
let all = [], number = 0;

export function drawLatest(latest) {
  all.unshift(...latest.map((answer) => ({...answer, key: number++})).reverse());
  all.length = Math.min(all.length, kept);
  if (!form.still.checked) draw();
}

function draw() {
  const text = form.text.value.trim().toLowerCase();
  const fits = (a) => [a.who, a.ip, a.what, a.answer, words(a.answer), a.rule].some((t) => t?.toLowerCase().includes(text));
  keyed($('#latest .list'), all.filter(fits).slice(0, shown), (a) => a.key, make, () => {}, text === '' ? 'No requests since this page was opened.' : 'No matches.');
}

const cut = (text) => text.endsWith('…'); // too long for a frame, so nobody could be asked about it

const make = (a) => el('div', {class: 'answer k-' + kindOf(a.answer)},
  el('span', {class: 'at'}, time(a.at)), el('span', {class: 'word'}, el('i'), words(a.answer)),
  cut(a.who) ? el('span', {class: 'who'}, visible(a.who))
    : el('button', {class: 'who', title: 'Explain', 'aria-label': `Explain ${visible(a.who) || 'unknown'}, ${visible(a.what)}, ${words(a.answer)} at ${time(a.at)}`, onclick: () => explain(a)}, visible(a.who) || 'unknown'),
  el('span', {class: 'what', title: visible(a.what)}, visible(a.what)), el('span', {class: 'by'}, a.rule ?? ''));

form.addEventListener('input', draw);
form.addEventListener('submit', (e) => e.preventDefault());
