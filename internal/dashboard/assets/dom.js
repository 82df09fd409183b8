// What the other modules build the page with. Texts always become text nodes: nothing that a caller sent is ever read as HTML.

export const $ = (selector, within = document) => within.querySelector(selector);

/** el makes an element: el('p', {class: 'x', onclick: f}, 'text', child, …). */
export function el(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children);
  return node;
}

/** put sets a text, only where it differs: so nothing flickers, and no screen reader repeats itself. */
export function put(node, text) {
  if (node.textContent !== String(text)) node.textContent = text;
  return node;
}

/**
 * keyed makes the children of parent what items say, keeping those that stay, and with them their focus.
 * make(item) returns a new element, update(element, item) brings it up to date; without items there is a note.
 */
export function keyed(parent, items, key, make, update, note = '') {
  const old = new Map([...parent.children].map((node) => [node.dataset.key, node]));
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
  for (const node of old.values()) node.remove();
  if (items.length === 0 && note !== '') parent.replaceChildren(Object.assign(el('p', {class: 'empty'}, note)));
}
