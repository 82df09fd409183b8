// Shows the visitor's place in a Tidegate waiting room, in every element <tidegate-room>, also in those that are added later.
//
//   <tidegate-room room="shoes" continue="/buy"></tidegate-room>
//   <script src="https://…/rooms/files/room.js"></script>
//
// room      the room; without it the last part of the page's path
// continue  where an admitted visitor goes on; without it the room's continue_url
// lane      the lane to join, in a room with lanes; without it the last one that is open to everybody
// token     the name of a global function that returns the visitor's JWT, or a promise of it, where the server has IDENTITY=jwt; without it
//           the JWT is the one of the page's address, …#token=…, which is taken out of it and kept for the tab
//
// The script may stand anywhere in the page, and may be a module. Pages written for earlier versions have, in place of the element, one of any name with the
// attributes data-tidegate-room, data-continue, data-lane and data-token; those that exist when the page is loaded are shown too.
//
// When the visitor is admitted, the element gets the event tidegate:admitted, whose detail is the place, with its pass.
(() => {
  'use strict';
  if (customElements.get('tidegate-room')) return; // the page has the script twice
  // A module has no currentScript, and only a module may use import.meta: the stack of an error names the file in both.
  const api = new URL(document.currentScript?.src || new Error().stack.match(/https?:[^\s)]+/)[0]).origin;
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
    waiting_for_returns: 'Everything is taken. Pieces that come back, for example because they are not paid, go to the next in line.',
    signIn: 'Sign in first.',
    signInAgain: 'Sign in again: this page cannot read your place any more, and what it shows is out of date.',
    held: 'The room is paused. Your place is kept, and no time runs.',
    recovering: 'The room is being restored. Your place is kept, and no time runs.',
    solving: 'Your browser solves a small task first, which takes some seconds.',
    unsolvable: 'This page cannot show the challenge that the shop asks for.',
    unloaded: 'The challenge that the shop asks for cannot be loaded. Try again.',
    insecure: 'This page cannot solve the challenge that the shop asks for, because its address does not begin with https:.',
    unknown: 'Your place cannot be read at the moment.',
    away: 'No connection. This page tries again.',
    awayWithPlace: 'No connection. Your place is kept, but a turn may come and go meanwhile; this page tries again.',
    sure: 'Give up your place? It cannot be had back.',
  };
  const minutes = (ms) => Math.max(1, Math.round(ms / 60000));
  // A time with its zone, and with its day unless that is today.
  const clock = (at) => {
    const day = new Date(at).toDateString() === new Date().toDateString() ? {} : { weekday: 'long', day: 'numeric', month: 'long' };
    return new Date(at).toLocaleString([], { ...day, hour: '2-digit', minute: '2-digit', timeZoneName: 'short' });
  };
  const span = (ms) => {
    const s = Math.max(0, Math.ceil(ms / 1000)), two = (n) => String(n).padStart(2, '0');
    if (s >= 172800) return sentence`${Math.round(s / 86400)} days`;
    return s < 3600 ? `${Math.floor(s / 60)}:${two(s % 60)}` : `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
  };
  // What was written last is compared, and not what is there: a browser that translates the page changes its texts, and would have them changed back, and read out,
  // again and again. The numbers of a sentence`…${number}…` are elements of their own, which stay untranslated, and change alone.
  const written = new WeakMap();
  const sentence = ([first, ...words], ...values) => values.reduce((s, value, i) => {
    const v = value.words ? value : { words: ['', ''], numbers: [String(value)] };
    const all = [...s.words.slice(0, -1), s.words.at(-1) + v.words[0], ...v.words.slice(1)];
    return { words: [...all.slice(0, -1), all.at(-1) + words[i]], numbers: [...s.numbers, ...v.numbers] };
  }, { words: [first], numbers: [] });
  function say(e, s) {
    const { words, numbers } = s.words ? s : sentence([s]);
    const last = written.get(e);
    if (last && last.words.join('\0') === words.join('\0')) {
      numbers.forEach((n, i) => { if (n !== last.numbers[i]) last.spans[i].textContent = n; });
      last.numbers = numbers;
      return;
    }
    const spans = numbers.map((n) => {
      const span = document.createElement('span');
      span.translate = false;
      span.textContent = n;
      return span;
    });
    e.replaceChildren(...words.flatMap((w, i) => [w, spans[i]]).filter(Boolean));
    written.set(e, { words, numbers, spans });
  }
  // A browser may refuse to store anything; then the tab remembers it.
  const memory = new Map();
  const kept = (storage) => ({
    get(name) {
      try {
        return memory.get(name) ?? storage().getItem(name);
      } catch {
        return null;
      }
    },
    set(name, value) {
      memory.delete(name);
      try {
        storage().setItem(name, value);
      } catch {
        memory.set(name, value);
      }
    },
  });
  const places = kept(() => localStorage);
  const session = kept(() => sessionStorage);
  const answerWithin = 15000; // a request that takes longer gets no answer: a connection may be dead without a sign
  const longest = 3600000; // until the next look, whatever the server asks for
  function takeToken() {
    const token = new URLSearchParams(location.hash.slice(1)).get('token');
    if (!token) return;
    session.set('tidegate:token', token);
    history.replaceState(null, '', location.pathname + location.search);
    dispatchEvent(new Event('tidegate:token'));
  }

  // Shows the place in an element, until the returned function is called.
  function start(box) {
    const option = (name, earlier = `data-${name}`) => box.getAttribute(name) ?? box.getAttribute(earlier);
    const room = option('room', 'data-tidegate-room') || location.pathname.split('/').filter(Boolean).pop();
    const url = `${api}/v1/rooms/${encodeURIComponent(room)}`;
    const key = `tidegate:${url}`, news = `${key} state`; // the token changes while the line moves, the state seldom
    const page = box.closest('[data-tidegate-page]'); // the built-in one
    let title = document.title;
    box.classList.add('tidegate');
    const add = (parent, tag, label) => {
      const e = parent.appendChild(document.createElement(tag));
      if (label) e.textContent = label;
      return e;
    };
    const parts = [];
    const part = (tag, name, label) => {
      const e = add(box, tag, label);
      e.dataset.part = name;
      parts.push(e);
      return e;
    };
    const lead = part('p', 'lead');
    lead.setAttribute('role', 'status'); // screen readers read it out when it changes
    lead.tabIndex = -1; // it has the focus when the button that had it is gone
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
    const signIn = part('a', 'sign-in', 'Sign in');
    signIn.className = 'go';
    const leave = part('button', 'leave', 'Give up my place');
    leave.className = 'quiet';
    const sure = part('p', 'sure', text.sure);
    sure.setAttribute('role', 'alert');
    const yes = part('button', 'yes', 'Yes, give it up');
    const no = part('button', 'no', 'Keep my place');
    yes.className = no.className = 'quiet';
    const draw = part('details', 'draw');
    add(draw, 'summary', 'How the order is drawn');
    const how = add(draw, 'p', 'Before anybody joined, the shop published a fingerprint of a secret. At the start, the list of all who joined and the secret ' +
      'together give the order, so nobody could choose a place. Afterwards both are published. ');
    const list = add(how, 'a', 'Anybody can check the whole order.');
    list.href = `${url}/draw.csv`;
    const round = add(draw, 'p');
    round.className = 'tidegate-beacon';
    const show = (e, on) => { e.hidden = !on; };

    let timer, asking = false, first = 0, admitted = false, seen = {}, credentials, ahead = -Infinity, line = () => '';
    const left = (at) => span(new Date(at) - performance.now() - ahead); // by the room's clock; the device's may be set meanwhile
    const tick = () => say(detail, line());
    const second = setInterval(tick, 1000);
    const ended = new AbortController();
    const identity = async () => {
      const token = option('token') ? await window[option('token')]() : session.get('tidegate:token');
      return token && { Authorization: `Bearer ${token}` };
    };
    // Reads the room. Cookies may say who the visitor is, but a server that allows pages of every origin gets none.
    async function read() {
      for (const mode of credentials ? [credentials] : ['include', 'same-origin']) {
        try {
          const answer = await fetch(url, { credentials: mode, signal: AbortSignal.timeout(answerWithin) });
          credentials = mode;
          return answer;
        } catch (e) {
          if (credentials || mode === 'same-origin' || api === location.origin) throw e;
        }
      }
    }
    async function call(method, path, solution) {
      const token = places.get(key);
      const answer = await fetch(url + path, {
        method, cache: 'no-store', credentials, signal: AbortSignal.timeout(answerWithin),
        headers: { ...await identity(), ...(token && { 'X-Place-Token': token }), ...(solution && { 'X-Captcha': solution }), ...(method === 'POST' && { 'Content-Type': 'application/json' }) },
        body: path === '/place' && method === 'POST' ? JSON.stringify({ lane: option('lane') || undefined }) : undefined,
      });
      const body = answer.status === 204 ? {} : await answer.json();
      if (body.token) places.set(key, body.token);
      if (body.state) places.set(news, body.state);
      return { ok: answer.ok, status: answer.status, body, retry: 1000 * (answer.headers.get('Retry-After') || 0) };
    }

    function header(doc) {
      title = doc.title || doc.item || room;
      say(page.querySelector('h1'), title);
      say(page.querySelector('[data-part=shop]'), doc.shop || '');
      const logo = page.querySelector('img');
      if (doc.logo_url && logo.getAttribute('src') !== doc.logo_url) logo.src = doc.logo_url;
      show(logo, !!doc.logo_url);
    }

    // known: whether there is a place; without one, there may be one that could not be read.
    function draws(doc, place, known, refusal) {
      const stranger = refusal === 'unauthenticated';
      ahead = Math.max(ahead, new Date(doc.now || Date.now()) - performance.now()); // a cached document is older
      if (page) header(doc);
      const onward = option('continue') || doc.continue_url;
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
      if (!state && refusal === 'banned') head = `${text.barred} ${text.banned}`;
      else if (!state && open) head = stranger ? text.signIn : known ? text.join : text.unknown;
      if (state === 'waiting') head = place.ahead ? sentence`${place.ahead.toLocaleString()} ahead of you` : 'You are next';
      if (state === 'barred' && place.reason) head += ` ${text[place.reason] || place.reason}`;
      say(lead, head);
      document.title = state === 'turn' ? `Your turn! ${title}` : state === 'waiting' ? `${place.ahead} ahead. ${title}` : title;
      show(bar, state === 'waiting' && first > 0);
      bar.max = first + 1;
      bar.value = first + 1 - (place ? place.ahead || 0 : 0);
      const begins = doc.draw ? sentence`The order is drawn at ${clock(doc.starts_at)}` : sentence`Turns begin at ${clock(doc.starts_at)}`;
      const later = sentence([doc.draw ? 'It does not matter when one joins before then; who comes later is behind all who take part in the draw.' : 'Who comes first is first.']);
      line = () => '';
      if (paused && !['done', 'barred'].includes(state)) line = () => text[doc.phase];
      else if (state === 'waiting') {
        const eta = place.eta ? sentence` About ${minutes(place.eta.min_ms)} to ${minutes(place.eta.max_ms)} minutes.` : sentence``;
        line = () => sentence`Your number is ${place.position.toLocaleString()}.${eta}`;
      } else if (state === 'turn') line = () => sentence`Take it within ${left(place.turn_until)}, or it goes to the next.`;
      else if (state === 'admitted') line = () => sells ? sentence`Order within ${left(place.pass_until)}.` : sentence`Go on within ${left(place.pass_until)}.`;
      else if (state === 'gathering' && listed) line = () => new Date(doc.draw.beacon.at) > new Date(doc.now) ? sentence`The list is complete. The order is drawn in ${left(doc.draw.beacon.at)}.` : 'The list is complete. The room waits for the public random number that gives the order.';
      else if (state === 'gathering') line = () => sentence`${begins}, in ${left(doc.starts_at)}. ${later} You may close this page: your place is kept.`;
      else if (doc.phase === 'scheduled') line = () => sentence`You may join at ${clock(doc.gather_at)}, in ${left(doc.gather_at)}. ${begins}. ${later}`;
      else if (again) line = () => 'You may join again, at the end.';
      else if (!state && doc.phase === 'gathering') line = () => sentence`${begins}, in ${left(doc.starts_at)}. ${later}`;
      else if (!state && open && doc.draw) line = () => 'The order was drawn. Who joins now is behind all who took part.';
      tick();
      say(outlook, sells && ['waiting', 'gathering'].includes(state) && text[place.outlook] || '');
      say(note, state && stranger ? text.signInAgain : doc.message || '');
      show(join, open && !stranger && refusal !== 'banned' && (place ? again : known));
      show(signIn, open && stranger && !!doc.sign_in_url);
      if (doc.sign_in_url) signIn.href = doc.sign_in_url;
      show(claim, state === 'turn' && !paused);
      show(go, state === 'admitted' && !!onward);
      if (onward) go.href = onward;
      const leaves = ['gathering', 'waiting', 'turn', 'admitted'].includes(state);
      asking = asking && leaves;
      show(leave, leaves && !asking);
      for (const e of [sure, yes, no]) show(e, asking);
      show(draw, !!doc.draw);
      const beacon = doc.draw && doc.draw.beacon;
      if (beacon) say(round, sentence`The order also depends on a public random number, round ${beacon.round} of drand ${beacon.network}, which is unknown, also to the shop, before ${clock(beacon.at)}.`);
      show(round, !!beacon);
      show(list, !!(doc.draw && doc.draw.seed));
      if (state === 'admitted' && !admitted) box.dispatchEvent(new CustomEvent('tidegate:admitted', { bubbles: true, detail: place }));
      admitted = state === 'admitted';
    }

    // The room wants one solved challenge for a place: joins again with the solution. After one that was refused, the visitor starts the next.
    async function solve(challenge, again) {
      if (challenge.provider !== 'altcha') return say(note, text.unsolvable);
      if (!isSecureContext) return say(note, text.insecure); // browsers compute hashes only there
      if (!customElements.get('altcha-widget')) { // a page of another origin has its own: browsers start no worker of this one there
        const style = document.createElement('link');
        style.rel = 'stylesheet';
        style.href = `${api}/rooms/files/captcha/altcha.css`;
        document.head.append(style);
        try {
          await import(`${api}/rooms/files/captcha/widget.js`);
        } catch {
          return say(note, text.unloaded);
        }
      }
      const widget = document.createElement('altcha-widget');
      widget.setAttribute('challenge', new URL(challenge.url, api).href);
      widget.setAttribute('auto', again ? 'off' : 'onload');
      widget.addEventListener('verified', (e) => look(['POST', '/place', e.detail.payload]));
      task.replaceChildren(widget);
      line = () => text.solving;
      tick();
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
          wait = 1000 * (answer.headers.get('Retry-After') || 60);
          return;
        }
        const place = await call(...ask);
        if (ended.signal.aborted) return;
        if (!doc.phase) throw new Error(doc.title);
        if (place.ok && place.body.state) seen = place.body;
        else if (place.status === 404 || ask[0] === 'DELETE') seen = null;
        if (seen) task.replaceChildren();
        const found = seen && seen.state ? seen : null;
        const had = document.activeElement;
        draws(doc, found, !seen || !!found || place.status < 500, place.ok ? '' : place.body.reason);
        if (box.contains(had) && had.hidden) lead.focus();
        if (place.body.challenge && ask[0] === 'POST') await solve(place.body.challenge, ask[2]);
        else if (task.firstChild) { line = () => text.solving; tick(); show(join, false); }
        if (!place.ok && !['unauthenticated', 'banned'].includes(place.body.reason) && place.status !== 404 && (!place.body.challenge || ask[2])) say(note, place.body.detail || place.body.title || '');
        wait = place.retry || (found && found.poll_after_ms) || (found ? 60000 : 5000);
        if (found && found.state === 'turned_away' && !['exhausted', 'closed'].includes(doc.phase)) wait = 2000; // doc was cached
        if (ask[0] === 'DELETE') wait = 200;
      } catch {
        say(note, (seen && seen.state) || places.get(key) ? text.awayWithPlace : text.away);
        wait = 3000 + Math.random() * 4000;
      } finally {
        if (!ended.signal.aborted) timer = setTimeout(look, Math.min(wait, longest));
      }
    }
    join.onclick = () => look(['POST', '/place']);
    claim.onclick = () => look(['POST', '/place/claim']);
    const ask = (on) => {
      asking = on;
      show(leave, !on);
      for (const e of [sure, yes, no]) show(e, on);
      (on ? no : leave).focus();
    };
    leave.onclick = () => ask(true);
    no.onclick = () => ask(false);
    yes.onclick = () => look(['DELETE', '/place']);
    const on = (target, event, then) => target.addEventListener(event, then, { signal: ended.signal });
    // A hidden tab is slowed down by the browser: ask at once when it is seen again, or the connection is back.
    on(document, 'visibilitychange', () => document.hidden || look());
    on(window, 'online', () => look());
    on(window, 'pageshow', (e) => e.persisted && look());
    on(window, 'storage', (e) => e.key === news && look()); // a second tab
    if (!option('token')) { // or the page may use its address for something else
      takeToken();
      on(window, 'hashchange', takeToken); // a link to the page that is open loads nothing
    }
    on(window, 'tidegate:token', () => look());
    for (const e of [bar, join, claim, go, signIn, leave, sure, yes, no, draw]) show(e, false);
    look();
    return () => {
      ended.abort();
      clearInterval(second);
      clearTimeout(timer);
      for (const e of parts) e.remove();
    };
  }

  const shown = new Set();
  customElements.define('tidegate-room', class extends HTMLElement {
    static observedAttributes = ['room', 'data-tidegate-room'];
    #end;
    connectedCallback() {
      shown.add(this);
      this.#end = start(this);
    }
    disconnectedCallback() {
      shown.delete(this);
      this.#end?.();
      this.#end = undefined;
    }
    attributeChangedCallback() {
      if (!this.#end) return;
      this.#end();
      this.#end = start(this);
    }
  });
  function startEarlier() {
    for (const box of document.querySelectorAll('[data-tidegate-room]:not(tidegate-room)')) {
      if (shown.has(box)) continue;
      shown.add(box);
      start(box);
    }
  }
  startEarlier();
  document.addEventListener('DOMContentLoaded', startEarlier);
  const warn = () => setTimeout(() => shown.size || console.warn('room.js: this page has no element <tidegate-room> yet, so it shows no waiting room.'));
  if (document.readyState === 'complete') warn();
  else addEventListener('load', warn);
})();
