// What the other modules build the page with. Texts always become text nodes: nothing that a caller sent is ever read as HTML.

export const $ = (selector, within = document) => within.querySelector(selector);

/** el makes an element: el('p', {class: 'x', onclick: f}, 'text', child, …). */
export function el(tag, properties = {}, ...children) {
  return dress(document.createElement(tag), properties, children);
}

/** svg makes an element of a drawing. */
export function svg(tag, properties = {}, ...children) {
  return dress(document.createElementNS('http://www.w3.org/2000/svg', tag), properties, children);
}

function dress(node, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

const written = new WeakMap();

/**
 * put sets a text, only where it differs from the last one: so nothing flickers, and no screen reader repeats itself. What is there is not compared, because a
 * browser that translates the page changes it.
 */
export function put(node, text) {
  if ((written.get(node) ?? node.textContent) !== String(text)) node.textContent = text;
  written.set(node, String(text));
  return node;
}

/** name sets what screen readers call an element. Buttons of several rows with the same text need names that differ. */
export function name(node, text) {
  if (node.getAttribute('aria-label') !== text) node.setAttribute('aria-label', text);
}

/**
 * keyed makes the children of parent what items say, keeping those that stay, and with them their focus.
 * make(item) returns a new element, update(element, item) brings it up to date; without items there is a note.
 */
export function keyed(parent, items, key, make, update, note = '') {
  if (items.length === 0 && note !== '') {
    return keyed(parent, [note], () => '', () => el('p', {class: 'empty'}), (node) => put(node, note));
  }
  const old = new Map([...parent.children].map((node) => [node.dataset.key, node]));
  const focused = document.activeElement;
  let at = parent.firstElementChild;
  for (const item of items) {
    const name = 'k' + key(item);
    let node = old.get(name);
    if (node) {
      old.delete(name);
    } else {
      node = make(item);
      node.dataset.key = name;
    }
    if (node === at) at = at.nextElementSibling;
    else parent.insertBefore(node, at);
    update(node, item);
  }
  for (const node of old.values()) {
    if (node.contains(document.activeElement)) $('h2', node.closest('section')).focus({preventScroll: true}); // or it would be nowhere
    node.remove();
  }
  if (document.activeElement !== focused && parent.contains(focused)) focused.focus({preventScroll: true}); // it was moved, and lost it
}

/** gauge is a bar; fill says how far it is full, and what that means. */
export const gauge = () => el('div', {class: 'gauge', role: 'meter', 'aria-valuemin': 0}, el('i'));

export function fill(bar, value, most, label) {
  const share = most > 0 ? Math.min(1, Math.max(0, value / most)) : 0;
  bar.firstElementChild.style.setProperty('--share', share);
  bar.setAttribute('aria-valuemax', most);
  bar.setAttribute('aria-valuenow', Math.min(value, most));
  bar.setAttribute('aria-label', label);
  bar.dataset.level = share > 0.95 ? 'full' : share > 0.75 ? 'high' : '';
}
