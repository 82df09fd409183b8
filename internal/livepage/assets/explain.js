// Why a caller is let in or not, rule by rule.

import {$, el} from './dom.js';
import {count, day, duration, visible, words} from './format.js';
import {call, toast} from './actions.js';
import {lift} from './lists.js';

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
  const stopped = e.rules.flatMap((r) => (r.applies ? r.windows : [])).find((w) => !w.admitted && !w.shadow);
  const lines = [
    e.ban ? line('bad', 'Would be refused', `banned as ${e.ban.kind} ${visible(e.ban.value)}: ${visible(e.ban.reason || e.ban.rule || 'by hand')}, until ${day(e.ban.until)}`)
      : stopped ? line('bad', 'Would be refused', `${words(stopped.reason)}, by the rule ${stopped.rule}`)
        : line(e.rules.some((r) => r.applies) ? 'good' : '', e.rules.some((r) => r.applies) ? 'Would be admitted' : 'No rule applies', e.allowed ? `and is never banned: on the list ${e.allowed}` : ''),
  ];
  if (e.ban) {
    lines[0].classList.add('ban');
    lines[0].append(lift(e.ban, ', and explain again', () => form.requestSubmit()));
  }
  for (const rule of e.rules) {
    if (!rule.applies) lines.push(line('off', rule.rule, 'does not apply: ' + rule.why));
    else if (!rule.windows.length) lines.push(line('', rule.rule, 'applies'));
    else lines.push(...rule.windows.map((w) => line(w.admitted || w.shadow ? '' : 'bad', rule.rule, stands(w))));
  }
  const focused = list.contains(document.activeElement);
  list.replaceChildren(...lines);
  if (focused) $('#explain h2').focus({preventScroll: true}); // or it would be nowhere
}

/** stands says in words and numbers where a caller stands in a window. */
function stands(w) {
  const parts = [];
  if (w.limit === null || w.window_ms === 0) parts.push(w.admitted ? 'admits, without a limit' : `${w.action}: ${words(w.reason ?? '')}`);
  else parts.push(`${count(Math.max(0, w.limit - w.remaining))} of ${count(w.limit)} in ${duration(w.window_ms)} used, ${count(w.remaining)} left`);
  if (w.retry_after_ms) parts.push(`retry after ${duration(w.retry_after_ms)}`);
  if (w.reset_after_ms) parts.push(`reset in ${duration(w.reset_after_ms)}`);
  parts.push(words(w.algorithm));
  if (w.shadow) parts.push('shadow, not applied');
  return parts.join(' · ');
}

const line = (kind, label, value) => el('div', {class: 'row ' + kind}, el('span', {class: 'label'}, label), el('span', {class: 'value'}, value));

/** explain fills the form in from a decision, and asks. */
export function explain({who, ip, what}) {
  const space = what.indexOf(' ');
  form.user.value = who === ip ? '' : who;
  form.ip.value = ip ?? '';
  form.method.value = what.slice(0, space);
  form.route.value = what.endsWith('…') ? '' : what.slice(space + 1);
  form.requestSubmit();
  $('#explain').scrollIntoView({block: 'nearest'});
}
