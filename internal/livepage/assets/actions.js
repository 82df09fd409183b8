// Changes go through the API as everybody's do: asked for by JSON, after a question, and named in the audit log.

import {$, put} from './dom.js';
import {duration} from './format.js';

/** ask opens the dialog and resolves to whether the operator wants it. Escape is no; the browser gives the focus back. */
function ask(title, text, verb, reasoned) {
  const dialog = $('#confirm');
  $('label', dialog).hidden = !reasoned;
  $('input', dialog).value = '';
  put($('h2', dialog), title);
  put($('p', dialog), text);
  put($('.primary', dialog), verb);
  dialog.returnValue = 'no';
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.onclose = () => dialog.open || resolve(dialog.returnValue === 'yes'); // of an earlier question it may come late
  });
}

let hide;
export function toast(text, bad = false) {
  const node = put($('#toast'), text);
  node.classList.toggle('bad', bad);
  node.classList.add('shown');
  clearTimeout(hide);
  hide = setTimeout(() => node.classList.remove('shown'), 6000);
}

const patience = 10_000; // milliseconds

/** here is a path of this server. Nothing is fetched from a page's address where that has a password in it, as http://x:TOKEN@HOST/. */
export const here = (path) => location.origin + path;

export async function call(method, path, body = {}) {
  const signal = AbortSignal.timeout(patience);
  const answer = await fetch(here(path), {method, signal, headers: {'Content-Type': 'application/json'}, body: method === 'POST' ? JSON.stringify(body) : undefined})
    .catch((error) => { throw error.name === 'TimeoutError' ? new Error(`no answer within ${duration(patience)}, so the result is unknown. Other windows of this page may be using all connections`) : error; });
  const told = await answer.json().catch(() => ({})); // some have none
  if (!answer.ok) throw new Error([told.title, told.detail].filter(Boolean).join(': ') || `status ${answer.status}`);
  return told;
}

/** change asks, does, and says what came of it; it resolves to true if it was done. With reasoned, the dialog asks for a reason, which is sent. */
export async function change(verb, what, text, method, path, button, reasoned = false) {
  if (button.getAttribute('aria-busy') === 'true' || !(await ask(`${verb} ${what}?`, text, verb, reasoned))) return;
  const reason = reasoned ? $('#confirm input').value.trim() : '';
  button.setAttribute('aria-busy', 'true');
  try {
    await call(method, path, reason ? {reason} : {});
    toast(`${verb} ${what}: done`);
    return true;
  } catch (error) {
    toast(`${verb} ${what}: ${error.message}`, true);
  } finally {
    button.removeAttribute('aria-busy');
  }
}
