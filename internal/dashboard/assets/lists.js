// The queue, semaphores, rules and bans.

import {el, keyed, put} from './dom.js';
import {count, duration, percent, rate, visible} from './format.js';
import {change} from './actions.js';

/** aged says how old the numbers of a part are, once they are older than they should be. */
export function aged(parent, part) {
  const old = part.error || part.age_ms > 3000;
  parent.parentElement.classList.toggle('old', Boolean(old));
  const note = parent.parentElement.querySelector('h2 small');
  note.dataset.scope ??= note.textContent;
  put(note, old ? `${note.dataset.scope} · as of ${duration(part.age_ms)} ago${part.error ? ': ' + part.error : ''}` : note.dataset.scope);
}

const row = (name, ...columns) => el('div', {class: 'row ' + name}, ...columns.map((c) => (typeof c === 'string' ? el('span', {class: c}) : c)));

export function drawQueue(parent, part) {
  if (!part) return;
  aged(parent, part);
  const q = part.value;
  const lines = [
    {name: 'waiting', label: 'accepted, not yet committed', text: count(q.waiting)},
    {name: 'oldest', label: 'the oldest since', text: q.waiting ? duration(q.oldest_ms) : '–'},
    {name: 'dead', label: 'dead letters', text: count(q.dead.length) + (q.more_dead ? ' and more' : ''), bad: q.dead.length > 0},
    ...q.dead.map((d) => ({name: d.order_id, dead: d})),
  ];
  keyed(parent, lines, (l) => l.name, (l) => {
    if (!l.dead) return row('fact', 'label', 'value');
    const path = `/v1/orders/dead/${encodeURIComponent(l.dead.order_id)}/replay`;
    return row('dead', 'label', 'value', el('button', {onclick: (e) => change('Replay order ' + l.dead.order_id, 'It is committed again. Do this once what made the database refuse it is gone.', 'POST', path, e.currentTarget)}, 'Replay'));
  }, (node, l) => {
    put(node.querySelector('.label'), l.dead ? `${l.dead.sale} · ${l.dead.item}` : l.label);
    put(node.querySelector('.value'), l.dead ? visible(l.dead.reason) : l.text);
    node.classList.toggle('bad', Boolean(l.bad || l.dead));
  });
}

export function drawSemaphores(parent, part) {
  if (!part) return;
  aged(parent, part);
  keyed(parent, part.value, (s) => s.name,
    () => el('div', {class: 'semaphore'}, row('fact', 'label', 'value'), el('meter', {min: 0}), el('div', {class: 'holders'})),
    (node, s) => {
      put(node.querySelector('.label'), s.name);
      put(node.querySelector('.value'), `${count(s.in_use)} of ${count(s.limit)}` + (s.waiting ? ` · ${count(s.waiting)} wait` : ''));
      const meter = node.querySelector('meter');
      meter.max = Math.max(1, s.limit); meter.value = s.in_use;
      meter.setAttribute('aria-label', `${s.name}: ${s.in_use} of ${s.limit} in use`);
      keyed(node.querySelector('.holders'), s.holders, (h) => h.permit_id,
        (h) => row('holder', 'label', 'value', el('button', {onclick: (e) => change(`Take the permit of ${h.holder}`,
          'Its holder hears of it with the next renewal, and somebody else may work at the same time until then.', 'DELETE',
          `/v1/semaphores/${encodeURIComponent(s.name)}/permits/${encodeURIComponent(h.permit_id)}`, e.currentTarget)}, 'Release')),
        (line, h) => {
          put(line.querySelector('.label'), visible(h.holder));
          put(line.querySelector('.value'), `for ${duration(Date.now() - Date.parse(h.since))}` + (h.weight > 1 ? ` · weight ${h.weight}` : ''));
        });
    }, 'No semaphore is defined.');
}

export function drawRules(parent, rules) {
  keyed(parent, rules, (r) => r.name, () => el('div', {class: 'rule'}, row('fact', 'label', 'value'), el('meter', {min: 0, max: 1, low: 0.8, high: 0.95, optimum: 0})),
    (node, r) => {
      put(node.querySelector('.label'), r.name);
      put(node.querySelector('.value'), [`${rate(r.charged)} in`, r.refused ? `${rate(r.refused)} refused` : '', r.shadow ? `${rate(r.shadow)} would be refused` : ''].filter(Boolean).join(' · '));
      const meter = node.querySelector('meter');
      meter.value = r.fullest;
      meter.title = `who has used most has used ${percent(r.fullest)} of the limit`;
      meter.setAttribute('aria-label', `${r.name}: ${meter.title}`);
    }, 'No rule has matched a request yet.');
}

export function drawBans(parent, part, now) {
  if (!part) return;
  aged(parent, part);
  const {bans, count: all} = part.value;
  const lines = all > bans.length ? [...bans, {more: all - bans.length}] : bans;
  keyed(parent, lines, (b) => (b.more ? 'more' : b.kind + ' ' + b.value),
    (b) => (b.more ? row('fact', 'label', 'value') : row('ban', 'label', 'value', el('button', {
      onclick: (e) => change(`Lift the ban of ${b.value}`, 'The caller may come in again at once.', 'DELETE',
        `/v1/bans/${b.kind}/${encodeURIComponent(b.value)}`, e.currentTarget)}, 'Lift'))),
    (node, b) => {
      put(node.querySelector('.label'), b.more ? `and ${count(b.more)} more` : `${b.kind} ${visible(b.value)}`);
      put(node.querySelector('.value'), b.more ? '' : `${visible(b.reason || b.rule || 'by hand')} · ${duration(Date.parse(b.until) - Date.parse(now))} left`);
    }, 'Nobody is banned.');
}
