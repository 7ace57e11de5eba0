/** Colours that stay apart for colour-blind eyes: Okabe and Ito's for kinds, two even ramps for values. */

const KINDS = 8;

/** The colour of a kind (run, player, component) as the style sheet has it for either theme. @param {number} place */
export function kind(place) {
  return `var(--kind-${place % KINDS})`;
}

const VIRIDIS = [
  "#440154",
  "#482878",
  "#3e4989",
  "#31688e",
  "#26828e",
  "#1f9e89",
  "#35b779",
  "#6ece58",
  "#b5de2b",
  "#fde725",
];
const CIVIDIS = [
  "#00224e",
  "#123570",
  "#3b496c",
  "#575d6d",
  "#707173",
  "#8a8678",
  "#a59c74",
  "#c3b369",
  "#e1cc55",
  "#fee838",
];

/** How many colours a ramp has: more than the eye tells apart, few enough to draw each in one stroke. */
export const STEPS = 48;

/** @param {string[]} stops @returns {string[]} */
function ramp(stops) {
  const parts = stops.map((stop) => [1, 3, 5].map((at) => parseInt(stop.slice(at, at + 2), 16)));
  return Array.from({ length: STEPS }, (_, step) => {
    const place = (step / (STEPS - 1)) * (parts.length - 1);
    const low = Math.min(Math.floor(place), parts.length - 2);
    const mixed = parts[low].map(
      (value, channel) => Math.round(value + (place - low) * (parts[low + 1][channel] - value)),
    );
    return `rgb(${mixed.join(",")})`;
  });
}

export const RAMPS = { viridis: ramp(VIRIDIS), cividis: ramp(CIVIDIS) };

/** The place of a share of 0 to 1 in a ramp; what is not known is at its low end. @param {number} share */
export function rung(share) {
  return Math.max(0, Math.min(STEPS - 1, Math.round(share * (STEPS - 1)) || 0));
}

/** A run keeps its colour in every view. @param {{id: string}[]} runs @param {string} id */
export function runColour(runs, id) {
  return kind(Math.max(0, runs.findIndex((run) => run.id === id)));
}

const THEMED = [
  "floor",
  "wall",
  "line",
  "ink",
  "muted",
  "edge",
  "door",
  "tile",
  "halo",
  "accent",
  "alert",
  "frontier",
  "outline",
];

/** Colours of the map that follow the theme; a canvas understands those of the style sheet only once resolved. */
export function themeColours() {
  const probe = document.createElement("i");
  document.body.append(probe);
  const resolve = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const colours = Object.fromEntries(THEMED.map((name) => [name, resolve(name)]));
  const kinds = Array.from({ length: KINDS }, (_, place) => resolve(`kind-${place}`));
  probe.remove();
  // Marks on the map grow with the letters of the page: 1 on a laptop, more on a projector.
  const unit = parseFloat(getComputedStyle(document.documentElement).fontSize) / 14;
  return { ...colours, kinds, unit };
}

/**
 * A scale from values to shares of 0 to 1; with `log` equal steps are equal factors.
 * @param {number[]} values @param {boolean} [log]
 */
export function scaleOf(values, log = false) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (value === null || !Number.isFinite(value)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (low > high) [low, high] = [0, 1];
  const bend = log ? (value) => Math.log1p(Math.max(0, value)) : (value) => value;
  const span = bend(high) - bend(low);
  return { low, high, log, share: (value) => (span > 0 ? (bend(value) - bend(low)) / span : 0.5) };
}
