// The queue, semaphores, rules and bans.

import {$, el, fill, gauge, keyed, put} from './dom.js';
import {count, duration, rate, seconds, time, visible} from './format.js';
import {change} from './actions.js';

/** isOld tells whether the numbers of a part are not those of now. */
export const isOld = (part) => Boolean(part && (part.error || part.age_ms > 3000));

/** told says in a part's heading how old its numbers are, once they are older than they should be, and else what there is to say. It tells whether there are any. */
export function told(parent, part, more = '') {
  if (!part) return false;
  const section = parent.closest('section'), note = $('h2 small', section);
  const old = isOld(part);
  section.classList.toggle('old', old);
  note.title = visible(part.error ?? ''); // there is not always room for all of it
  note.dataset.scope ??= note.textContent;
  if (!part.value) {
    put(note, note.dataset.scope);
    keyed(parent, [], null, null, null, 'Unknown: ' + visible(part.error));
    return false;
  }
  put(note, [note.dataset.scope, more, old && `as of ${duration(part.age_ms)} ago${part.error ? ': ' + visible(part.error) : ''}`].filter(Boolean).join(' · '));
  return true;
}

const row = (name, ...more) => el('div', {class: 'row ' + name}, el('span', {class: 'label'}), el('span', {class: 'value'}), ...more);

function say(node, label, value) {
  put($('.label', node), label);
  put($('.value', node), value);
}

/** oldest is how long the oldest order waits, and since when. */
export const oldest = (q, now) => `${duration(q.oldest_ms)}, since ${time(Date.parse(now) - q.oldest_ms)}`;

export function drawQueue(parent, part, window, now) {
  if (!told(parent, part)) return;
  const q = part.value;
  const facts = [
    ['accepted, not yet committed', count(q.waiting)],
    ['tasks in progress', count(q.in_progress)],
    ['oldest order', q.waiting ? 'waits for ' + oldest(q, now) : '–'],
    ['committed', `${rate(q.committed * 1000 / window)}/s, counted over ${seconds(window)}`],
    ['dead letters', count(q.dead.length) + (q.more_dead ? ' and more' : '')],
  ];
  keyed(parent, [...facts, ...q.dead], (l) => l.order_id ?? l[0], (l) => (l.order_id ? deadLetter(l.order_id) : row('fact')), (node, l) => {
    if (l.order_id) say(node, `${l.sale} · ${l.item}`, visible(l.reason));
    else say(node, ...l);
    node.classList.toggle('bad', Boolean(l.order_id) || l[0] === 'dead letters' && q.dead.length > 0);
  });
}

const deadLetter = (id) => row('dead', el('button', {
  class: 'change',
  'aria-label': 'Replay order ' + id,
  onclick: (e) => change('Replay', 'order ' + id, 'It will be committed again. Remove the cause of the refusal first.', 'POST', `/v1/orders/dead/${encodeURIComponent(id)}/replay`, e.currentTarget),
}, 'Replay'));

export function drawSemaphores(parent, part, more, now) {
  if (!told(parent, part, more && `and ${count(more)} more`)) return;
  keyed(parent, part.value, (s) => s.name, () => el('div', {class: 'block'}, row('fact'), gauge(), el('div', {class: 'holders'})), (node, s) => {
    say(node, visible(s.name), `${count(s.in_use)} of ${count(s.limit)} held · ${count(s.waiting)} waiting`);
    fill($('.gauge', node), s.in_use, s.limit, `${s.name}: ${s.in_use} of ${s.limit} held`);
    keyed($('.holders', node), s.holders, (h) => h.permit_id, (h) => permit(s.name, h), (line, h) => {
      say(line, visible(h.holder), `for ${duration(Date.parse(now) - Date.parse(h.since))}` + (h.weight > 1 ? ` · weight ${h.weight}` : ''));
    });
  }, 'No semaphore is defined.');
}

const permit = (semaphore, h) => row('holder', el('button', {
  class: 'change',
  'aria-label': `Release permit ${h.permit_id} of ${semaphore}, held by ${visible(h.holder)}`,
  onclick: (e) => change('Release', 'the permit of ' + visible(h.holder), 'Its holder learns this at the next renewal. Until then, it and a new holder may work at the same time.', 'DELETE',
    `/v1/semaphores/${encodeURIComponent(semaphore)}/permits/${encodeURIComponent(h.permit_id)}`, e.currentTarget),
}, 'Release'));

export function drawRules(parent, frame) {
  put($('h2 small', parent.parentElement), `counted over ${seconds(frame.window_ms)}, this process` + (frame.more_rules ? ` · and ${count(frame.more_rules)} more` : ''));
  const perSecond = (n) => rate(n * 1000 / Math.max(1, frame.window_ms)) + '/s';
  keyed(parent, frame.rules, (r) => r.name, () => el('div', {class: 'block'}, row('fact'), gauge(), el('p', {class: 'detail'})), (node, r) => {
    say(node, r.name, r.limit ? `maximum used ${count(r.used)} of ${count(r.limit)}` : 'no counters');
    fill($('.gauge', node), r.used, r.limit, `${r.name}: the highest counter is ${r.used} of ${r.limit}`);
    put($('.detail', node), `${perSecond(r.charged)} passed · ${perSecond(r.refused)} refused` + (r.shadow ? ` · ${perSecond(r.shadow)} would be refused (shadow)` : ''));
  }, 'There are no rules.');
}

export function drawShards(parent, shards) {
  parent.closest('section').hidden = !shards;
  keyed(parent, (shards ?? []).map((s, i) => ({...s, name: `shard ${i}`})), (s) => s.name, () => row('fact'), (node, s) => {
    say(node, s.name, `${count(s.subjects)} subjects held · ${count(s.reclaimed)} reclaimed · ${count(s.evicted)} evicted · cleaned ${duration(s.cleaned_ms)} ago`);
    node.classList.toggle('bad', s.late);
  });
}

export function drawBans(parent, part, now) {
  const {bans, count: all} = part?.value ?? {bans: [], count: 0}, filter = $('#bans input');
  if (!told(parent, part, all > bans.length ? `the ${count(bans.length)} longest, and ${count(all - bans.length)} more` : all && count(all))) return;
  filter.hidden = all < 10;
  const text = filter.hidden ? '' : filter.value.trim().toLowerCase();
  const fits = bans.filter((b) => [b.kind + ' ' + b.value, b.reason, b.rule].some((t) => t.toLowerCase().includes(text)));
  keyed(parent, fits, (b) => b.kind + ' ' + b.value, (b) => row('ban', lift(b)), (node, b) => {
    say(node, `${b.kind} ${visible(b.value)}`, `${visible(b.reason || b.rule || 'by hand')} · ${duration(1000 * Math.ceil((Date.parse(b.until) - Date.parse(now)) / 1000))} left`);
  }, all ? 'No matches in this list. “Explain this caller” finds all bans.' : 'No bans.');
}

/** lift is a button that ends a ban, and then calls whoever wants to know; where says in which list it is, for its name. */
export const lift = (b, where = '', then = () => {}) => el('button', {
  class: 'change',
  'aria-label': `Lift the ban of ${b.kind} ${visible(b.value)}${where}`,
  onclick: (e) => change('Lift', 'the ban of ' + visible(b.value), 'The caller is admitted again at once.', 'DELETE', `/v1/bans/${b.kind}/${encodeURIComponent(b.value)}`, e.currentTarget).then((done) => done && then()),
}, 'Lift');
