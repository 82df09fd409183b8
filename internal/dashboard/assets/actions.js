// Changes go through the API as everybody's do: asked for by JSON, after a question, and named in the audit log.

import {$, put} from './dom.js';

/** ask opens the dialog and resolves to whether the operator wants it. */
function ask(title, text) {
  const dialog = $('#confirm');
  put($('h2', dialog), title);
  put($('p', dialog), text);
  dialog.returnValue = 'no';
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener('close', () => resolve(dialog.returnValue === 'yes'), {once: true}));
}

let hide;
export function toast(text, bad = false) {
  const node = put($('#toast'), text);
  node.classList.toggle('bad', bad);
  node.classList.add('shown');
  clearTimeout(hide);
  hide = setTimeout(() => node.classList.remove('shown'), 6000);
}

export async function call(method, path) {
  const answer = await fetch(path, {method, headers: {'Content-Type': 'application/json'}, body: method === 'POST' ? '{}' : undefined});
  const text = await answer.text();
  const body = text === '' ? {} : JSON.parse(text);
  if (!answer.ok) throw new Error([body.title, body.detail].filter(Boolean).join(': ') || answer.statusText);
  return body;
}

/** change asks, does, and says what came of it. */
export async function change(title, text, method, path, button) {
  if (!(await ask(title, text))) return;
  button.disabled = true;
  try {
    await call(method, path);
    toast(title + ' — done');
  } catch (error) {
    toast(title + ' — ' + error.message, true);
  } finally {
    button.disabled = false;
  }
}
