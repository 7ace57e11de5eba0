/** Elements without ceremony, and numbers as people write them. */

const SVG = "http://www.w3.org/2000/svg";

/**
 * Make an element. Properties that begin with `on` are listeners, `data` holds data attributes, the rest are
 * attributes; null and false leave an attribute out.
 * @param {string} tag
 * @param {Record<string, any>} [properties]
 * @param {...(Node|string|number|null|undefined|false)} children
 * @returns {HTMLElement}
 */
export function el(tag, properties = {}, ...children) {
  return /** @type {HTMLElement} */ (furnish(document.createElement(tag), properties, children));
}

/** The same for SVG. @param {string} tag @param {Record<string, any>} [properties] @param {...any} children */
export function svg(tag, properties = {}, ...children) {
  return furnish(document.createElementNS(SVG, tag), properties, children);
}

function furnish(node, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "data") Object.assign(node.dataset, value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(
      name,
      value === true ? "" : value,
    );
  }
  for (const child of children) if (child !== null && child !== undefined && child !== false) node.append(child);
  return node;
}

/** The one element with this test id. @param {string} id @returns {any} */
export function byId(id) {
  const found = document.querySelector(`[data-testid="${id}"]`);
  if (!found) throw new Error(`The page has no element "${id}".`);
  return found;
}

/** Put children in place of what an element holds, without touching it where nothing differs. */
export function fill(node, ...children) {
  node.replaceChildren(...children.filter((child) => child !== null && child !== undefined && child !== false));
}

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** 40000 as "40,000"; small numbers with as many digits as the eye needs. @param {number|null|undefined} value */
export function number(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 100 || Number.isInteger(value)) return WHOLE.format(value);
  return size >= 10 ? value.toFixed(1) : size >= 0.01 ? value.toFixed(2) : value.toPrecision(2);
}

/** 0.42 as "42%"; only all is "100%", and only none is "0%". @param {number|null|undefined} share */
export function percent(share) {
  if (share === null || share === undefined || !Number.isFinite(share)) return "–";
  const whole = Math.round(100 * share);
  if (share < 1 && whole >= 100) return ">99%";
  return share > 0 && whole <= 0 ? "<1%" : `${whole}%`;
}

/** "231 of 232 squares (>99%)". @param {number} part @param {number} all @param {string} what */
export function shareOf(part, all, what) {
  return `${number(part)} of ${number(all)} ${what} (${percent(part / all)})`;
}

/** 1200000 as "1.2M", for axes. @param {number} value */
export function short(value) {
  const size = Math.abs(value);
  for (const [unit, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (size >= unit) return `${Number((value / Number(unit)).toPrecision(3))}${letter}`;
  }
  return `${Number(value.toPrecision(3))}`;
}

const SHAPES = {
  play: "M5 3l9 6-9 6z",
  pause: "M4 3h3.4v12H4zM10.6 3H14v12h-3.4z",
  step: "M3 3l8 6-8 6zM12 3h3v12h-3z",
  again: "M9 3a6 6 0 1 0 6 6h-2.2A3.8 3.8 0 1 1 9 5.2V8l5-4-5-4z",
  stop: "M4 4h10v10H4z",
  close: "M4.3 3 9 7.7 13.7 3 15 4.3 10.3 9l4.7 4.7-1.3 1.3L9 10.3 4.3 15 3 13.7 7.7 9 3 4.3z",
};

/** A small picture for a button. @param {keyof typeof SHAPES} name */
export function icon(name) {
  return svg("svg", { viewBox: "0 0 18 18", class: "icon", "aria-hidden": "true" }, svg("path", { d: SHAPES[name] }));
}
