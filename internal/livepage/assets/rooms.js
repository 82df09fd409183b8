// The waiting rooms, and how each goes on.

import {$, el, keyed, name, put} from './dom.js';
import {count, day, duration} from './format.js';
import {change} from './actions.js';
import {told} from './lists.js';

const outlooks = {
  certain: 'certain to get a unit', likely: 'likely to get a unit', unlikely: 'unlikely to get a unit', waiting_for_returns: 'all taken, unpaid units may return', none: 'nothing is left',
};

const questions = {
  Hold: ['hold', 'Nobody gets a turn, and nobody loses one: windows and passes stand still until it is resumed.'],
  Resume: ['resume', 'Turns are given again, and windows continue where they were.'],
};

export function drawRooms(section, part, more, now) {
  section.hidden = !part || (part.value?.length === 0 && !part.error);
  const list = $('.list', section);
  if (section.hidden || !told(list, part, more && `and ${count(more)} more, in tidegate rooms`)) return;
  const at = Date.parse(now) - part.age_ms;
  keyed(list, part.value, (r) => r.room, make, (node, room) => update(node, room, at));
}

const facts = ['waiting', 'admitted', 'served', 'outlook'];

const make = (room) => el('article', {class: 'room'},
  el('header', {}, el('h3', {}, room.room), el('span', {class: 'badge'}), el('span', {class: 'hours'}), el('button', {class: 'switch change', onclick: (e) => turn(room.room, e.currentTarget)})),
  el('dl', {}, ...facts.map((name) => el('div', {class: name}, el('dt'), el('dd')))), el('ul', {class: 'lanes'}));

function turn(room, button) {
  const [verb, question] = questions[button.value]; // its text may be translated
  change(button.value, `room ${room}`, question, 'POST', `/v1/rooms/${encodeURIComponent(room)}/${verb}`, button, true);
}

function update(node, room, at) {
  const over = room.phase === 'closed' || room.phase === 'exhausted', starts = Date.parse(room.starts_at) - at;
  node.dataset.state = room.phase;
  put($('.badge', node), room.phase);
  put($('.hours', node), [room.sale && `${room.item} of ${room.sale}`, starts > 0 && !over && `turns from ${day(room.starts_at)}, in ${duration(starts)}`].filter(Boolean).join(' · '));
  const button = $('.switch', node);
  button.hidden = over;
  button.value = room.phase === 'held' ? 'Resume' : 'Hold';
  name(put(button, button.value), `${button.value} room ${room.room}`);
  const say = (fact, label, value) => { put($(`.${fact} dt`, node), label); put($(`.${fact} dd`, node), value); };
  say('waiting', 'waiting', count(room.waiting));
  say('admitted', 'admitted last minute', over ? '–' : count(room.admitted));
  say('served', 'had their turn', count(room.served));
  const shares = (room.lanes ?? []).reduce((sum, l) => sum + l.share, 0);
  keyed($('.lanes', node), room.lanes ?? [], (l) => l.lane, () => el('li'), (li, l) => put(li, `${l.lane}: ${count(l.waiting)} waiting, ${count(l.served)} had their turn, share ${Math.round(100 * l.share / shares)} %`));
  say('outlook', over ? 'those who waited' : 'whoever joins now', over ? 'were turned away' : room.sale ? outlooks[room.outlook] ?? room.outlook : 'likely to get a turn');
}
