// Who looks. The page takes a token once, and the browser keeps a cookie for it that no script can read.

import {$, put} from './dom.js';
import {call} from './actions.js';

const form = $('#session'), leave = $('#leave');

/** role asks who looks, shows the form where nobody has signed in, and resolves to the role: '' if there is none. */
export async function role() {
  const session = await call('GET', '/session');
  show(session);
  return session.role;
}

function show({role, name, expires_at: expires}) {
  document.body.dataset.role = role;
  leave.hidden = !expires;
  put($('#who'), role && `${name}, ${role}`);
  form.hidden = role !== '';
}

/** onChange calls whoever wants to know when somebody has signed in or out. */
export function onChange(changed) {
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    put($('[role=alert]', form), '');
    try {
      show(await call('POST', '/session', {token: form.token.value.trim()}));
      form.reset();
      changed();
    } catch (error) {
      put($('[role=alert]', form), error.message);
      form.token.select();
    }
  });
  leave.addEventListener('click', async () => {
    await call('DELETE', '/session').catch(() => {}); // the cookie is gone either way
    changed();
  });
}
