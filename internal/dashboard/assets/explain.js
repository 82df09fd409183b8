// Why a caller is let in or not.

import {$, el, put} from './dom.js';
import {count, duration} from './format.js';
import {call, toast} from './actions.js';

const form = $('#explain form'), list = $('#explain .list');

form.addEventListener('submit', async (event) => {
  event.preventDefault();
  const asked = new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== ''));
  try {
    show(await call('GET', '/v1/explain?' + asked));
  } catch (error) {
    toast(error.message, true);
  }
});

function show(e) {
  const lines = [];
  if (e.ban) lines.push(line('bad', `banned as ${e.ban.kind} ${e.ban.value}`, `${e.ban.reason || e.ban.rule || 'by hand'} · until ${e.ban.until}`));
  if (e.allowed) lines.push(line('', 'never banned', 'on the list ' + e.allowed));
  for (const rule of e.rules) {
    for (const w of rule.windows.length ? rule.windows : [null]) {
      const stands = w ? `${count(Math.max(0, w.limit - w.remaining))} of ${w.limit < 0 ? 'unlimited' : count(w.limit)} used` + (w.reset_after_ms ? ` · free again in ${duration(w.reset_after_ms)}` : '') : '';
      lines.push(line(rule.applies && w && !w.admitted ? 'bad' : rule.applies ? '' : 'off', rule.rule, rule.applies ? stands || 'applies' : `does not apply: ${rule.why}` + (stands ? ` (${stands})` : '')));
    }
  }
  list.replaceChildren(...lines);
}

const line = (kind, label, value) => el('div', {class: 'row ' + kind}, el('span', {class: 'label'}, label), el('span', {class: 'value'}, value));

/** explain fills the form in from a decision, and asks. */
export function explain(who, what) {
  const [method, route] = what.split(' ');
  const isAddress = /^[0-9a-f.:]+$/i.test(who) && /[.:]/.test(who);
  form.user.value = isAddress ? '' : who;
  form.ip.value = isAddress ? who : '';
  form.method.value = method ?? '';
  form.route.value = route ?? '';
  form.requestSubmit();
  form.scrollIntoView({block: 'center', behavior: matchMedia('(prefers-reduced-motion: reduce)').matches ? 'auto' : 'smooth'});
}
