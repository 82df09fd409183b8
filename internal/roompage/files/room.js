// Shows the visitor's place in a Tidegate waiting room, in every element with the attribute data-tidegate-room.
//
//   <div data-tidegate-room="shoes" data-continue="/buy"></div>
//   <script src="https://…/rooms/files/room.js"></script>
//
// data-tidegate-room  the room; without it the last part of the page's path
// data-continue       where an admitted visitor goes on
// data-lane           the lane to join, in a room with lanes; without it the last one that is open to everybody
//
// When the visitor is admitted, the element gets the event tidegate:admitted, whose detail is the place, with its pass.
(() => {
  'use strict';
  const api = new URL(document.currentScript.src).origin;
  const text = {
    scheduled: 'The room has not opened yet.',
    join: 'You have no place yet.',
    gathering: 'You are in. The order will be drawn.',
    behind: 'You are in, behind those who joined before the start.',
    turn: 'It is your turn.',
    admitted: 'You may order now.',
    done: 'You have ordered.',
    entered: 'You may go on now.',
    finished: 'You are done.',
    lapsed: 'Your time was over before you took it.',
    left: 'You gave up your place.',
    exhausted: 'Everything is sold.',
    closed: 'The room is closed.',
    over: 'No more turns are given.',
    barred: 'You cannot take part.',
    banned: 'You are banned.',
    certain: 'There is enough for everybody in front of you, and for you.',
    likely: 'There should be enough for you.',
    unlikely: 'There may not be enough for you: more people are in front than there are pieces.',
    waiting_for_returns: 'Everything is taken, but not all of it is paid. Pieces that come back go to the next in line.',
    held: 'The room is paused. Your place is kept, and no time runs.',
    recovering: 'The room is being restored. Your place is kept, and no time runs.',
    solving: 'Your browser solves a small task first, which takes some seconds.',
    unsolvable: 'This page cannot show the challenge that the shop asks for.',
    unknown: 'Your place cannot be read at the moment.',
    away: 'No connection. This page tries again.',
    awayWithPlace: 'No connection. Your place is kept; this page tries again.',
  };
  const minutes = (ms) => Math.max(1, Math.round(ms / 60000));
  const clock = (at) => {
    const day = new Date(at).toDateString() === new Date().toDateString() ? {} : { weekday: 'long', day: 'numeric', month: 'long' };
    return new Date(at).toLocaleString([], { ...day, hour: '2-digit', minute: '2-digit', second: '2-digit' });
  };

  function start(box) {
    const room = box.dataset.tidegateRoom || decodeURIComponent(location.pathname.split('/').pop());
    const url = `${api}/v1/rooms/${encodeURIComponent(room)}`;
    const key = `tidegate:${url}`;
    const title = document.title;
    box.classList.add('tidegate');
    const part = (tag, name, label) => {
      const e = box.appendChild(document.createElement(tag));
      e.dataset.part = name;
      if (label) e.textContent = label;
      return e;
    };
    const lead = part('p', 'lead');
    lead.setAttribute('role', 'status'); // screen readers read it out when it changes
    const bar = part('progress', 'bar');
    bar.setAttribute('aria-label', 'How far the line has come');
    const detail = part('p', 'detail');
    const outlook = part('p', 'outlook');
    const note = part('p', 'note');
    const task = part('div', 'task');
    const join = part('button', 'join', 'Take a place');
    const claim = part('button', 'claim', 'Take my turn');
    const go = part('a', 'go', 'Go on');
    go.className = 'go';
    const leave = part('button', 'leave', 'Give up my place');
    leave.className = 'quiet';
    const draw = part('details', 'draw');
    draw.innerHTML = '<summary>How the order is drawn</summary><p>Before anybody joined, the shop published a fingerprint of a secret. At the start, ' +
      'the list of all who joined and the secret together give the order, so nobody could choose a place. ' +
      'Afterwards both are published, and <a>anybody can check the whole order</a>.</p><p hidden class="tidegate-beacon"></p>';
    draw.querySelector('a').href = `${url}/draw.csv`;
    const say = (e, s) => { if (e.textContent !== s) e.textContent = s; };
    const show = (e, on) => { e.hidden = !on; };

    let timer, first = 0, admitted = false, seen = {}, credentials;
    // Reads the room. Cookies may say who the visitor is, but a server that allows pages of every origin gets none.
    async function read() {
      for (const mode of credentials ? [credentials] : ['include', 'same-origin']) {
        try {
          const answer = await fetch(url, { credentials: mode });
          credentials = mode;
          return answer;
        } catch (e) {
          if (credentials || mode === 'same-origin' || api === location.origin) throw e;
        }
      }
    }
    async function call(method, path, solution) {
      const token = localStorage.getItem(key);
      const answer = await fetch(url + path, {
        method, cache: 'no-store', credentials,
        headers: { ...(token && { 'X-Place-Token': token }), ...(solution && { 'X-Captcha': solution }), ...(method === 'POST' && { 'Content-Type': 'application/json' }) },
        body: path === '/place' && method === 'POST' ? JSON.stringify({ lane: box.dataset.lane || undefined }) : undefined,
      });
      const body = answer.status === 204 ? {} : await answer.json();
      if (body.token) localStorage.setItem(key, body.token);
      return { ok: answer.ok, status: answer.status, body, retry: 1000 * (answer.headers.get('Retry-After') || 0) };
    }

    // known: whether there is a place; without one, there may be one that could not be read.
    function draws(doc, place, known) {
      const state = place ? place.state : '';
      const open = ['gathering', 'serving', 'held', 'recovering'].includes(doc.phase);
      const sells = doc.stock !== undefined;
      const again = (['lapsed', 'left'].includes(state) || state === 'done' && !sells) && open;
      const paused = doc.phase === 'held' || doc.phase === 'recovering';
      first = Math.max(first, place && place.ahead ? place.ahead : 0);
      const end = { scheduled: text.scheduled, exhausted: text.exhausted, closed: text.closed }[doc.phase] || text.over;
      let head = text[state] || end;
      const listed = doc.draw && doc.draw.beacon && doc.draw.root && !doc.draw.seed;
      if (state === 'gathering' && listed && place.number > doc.draw.n) head = text.behind;
      if (!sells && state === 'admitted') head = text.entered;
      if (!sells && state === 'done') head = text.finished;
      if (!state && open) head = known ? text.join : text.unknown;
      if (state === 'waiting') head = place.ahead ? `${place.ahead.toLocaleString()} ahead of you` : 'You are next';
      if (state === 'barred' && place.reason) head += ` ${text[place.reason] || place.reason}`;
      say(lead, head);
      document.title = state === 'turn' ? `Your turn! ${title}` : state === 'waiting' ? `${place.ahead} ahead. ${title}` : title;
      show(bar, state === 'waiting' && first > 0);
      bar.max = first + 1;
      bar.value = first + 1 - (place ? place.ahead || 0 : 0);
      let line = '';
      if (state === 'waiting') {
        line = `Your number is ${place.position.toLocaleString()}.`;
        if (place.eta) line += ` About ${minutes(place.eta.min_ms)} to ${minutes(place.eta.max_ms)} minutes.`;
      } else if (state === 'turn') line = `Take it before ${clock(place.turn_until)}, or it goes to the next.`;
      else if (state === 'admitted') line = `${sells ? 'Order' : 'Go on'} before ${clock(place.pass_until)}.`;
      else if (state === 'gathering' && listed) line = new Date(doc.draw.beacon.at) > new Date(doc.now) ? `The list is complete. The order is drawn at ${clock(doc.draw.beacon.at)}.` : 'The list is complete. The room waits for the public random number that gives the order.';
      else if (doc.phase === 'scheduled' || state === 'gathering') line = `It starts at ${clock(doc.starts_at)}. ${doc.draw ? 'It does not matter when you join before then, and you may close this page.' : 'Who comes first is first.'}`;
      else if (again) line = 'You may join again, at the end.';
      say(detail, paused && !['done', 'barred'].includes(state) ? text[doc.phase] : line);
      say(outlook, sells && ['waiting', 'gathering'].includes(state) && text[place.outlook] || '');
      say(note, doc.message || '');
      show(join, open && (place ? again : known));
      show(claim, state === 'turn' && !paused);
      show(go, state === 'admitted' && !!box.dataset.continue);
      show(leave, ['gathering', 'waiting', 'turn', 'admitted'].includes(state));
      show(draw, !!doc.draw);
      const beacon = doc.draw && doc.draw.beacon;
      if (beacon) say(draw.querySelector('.tidegate-beacon'), `The order also depends on a public random number, round ${beacon.round} of drand ${beacon.network}, which is unknown, also to the shop, before ${clock(beacon.at)}.`);
      show(draw.querySelector('.tidegate-beacon'), !!beacon);
      draw.querySelector('a').toggleAttribute('hidden', !(doc.draw && doc.draw.seed));
      if (box.dataset.continue) go.href = box.dataset.continue;
      if (state === 'admitted' && !admitted) box.dispatchEvent(new CustomEvent('tidegate:admitted', { bubbles: true, detail: place }));
      admitted = state === 'admitted';
    }

    // The room wants one solved challenge for a place: joins again with the solution. After one that was refused, the visitor starts the next.
    async function solve(challenge, again) {
      if (challenge.provider !== 'altcha') return say(note, text.unsolvable);
      if (!customElements.get('altcha-widget')) { // a page of another origin has its own: browsers start no worker of this one there
        const style = document.createElement('link');
        style.rel = 'stylesheet';
        style.href = `${api}/rooms/files/captcha/altcha.css`;
        document.head.append(style);
        await import(`${api}/rooms/files/captcha/widget.js`);
      }
      const widget = document.createElement('altcha-widget');
      widget.setAttribute('challenge', new URL(challenge.url, api).href);
      widget.setAttribute('auto', again ? 'off' : 'onload');
      widget.addEventListener('verified', (e) => look(['POST', '/place', e.detail.payload]));
      task.replaceChildren(widget);
      say(detail, text.solving);
      show(join, false);
    }

    async function look(ask = ['GET', '/place']) {
      clearTimeout(timer);
      let wait = 5000;
      try {
        const answer = await read();
        const doc = await answer.json();
        if (!doc.phase && answer.status < 500) { // such as an unknown room
          say(note, doc.detail || doc.title);
          timer = setTimeout(look, 1000 * (answer.headers.get('Retry-After') || 60));
          return;
        }
        const place = await call(...ask);
        if (!doc.phase) throw new Error(doc.title);
        if (place.ok && place.body.state) seen = place.body;
        else if (place.status === 404 || ask[0] === 'DELETE') seen = null;
        if (seen) task.replaceChildren();
        const found = seen && seen.state ? seen : null;
        draws(doc, found, !seen || !!found || place.status < 500);
        if (place.body.challenge && ask[0] === 'POST') await solve(place.body.challenge, ask[2]);
        else if (task.firstChild) { say(detail, text.solving); show(join, false); }
        if (!place.ok && place.status !== 404 && (!place.body.challenge || ask[2])) say(note, place.body.detail || place.body.title || '');
        wait = place.retry || (found && found.poll_after_ms) || (found ? 60000 : 5000);
        if (found && found.state === 'turned_away' && !['exhausted', 'closed'].includes(doc.phase)) wait = 2000; // doc was cached
        if (ask[0] === 'DELETE') wait = 200;
      } catch {
        say(note, (seen && seen.state) || localStorage.getItem(key) ? text.awayWithPlace : text.away);
        wait = 3000 + Math.random() * 4000;
      }
      timer = setTimeout(look, wait);
    }
    join.onclick = () => look(['POST', '/place']);
    claim.onclick = () => look(['POST', '/place/claim']);
    leave.onclick = () => look(['DELETE', '/place']);
    // A hidden tab is slowed down by the browser: ask at once when it is seen again, or the connection is back.
    document.addEventListener('visibilitychange', () => document.hidden || look());
    addEventListener('online', () => look());
    addEventListener('storage', (e) => e.key === key && look()); // a second tab
    for (const e of [bar, join, claim, go, leave, draw]) show(e, false);
    look();
  }
  document.querySelectorAll('[data-tidegate-room]').forEach(start);
})();
