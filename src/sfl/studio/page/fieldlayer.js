/** The field on the map: one square per place, and outlines where it crosses a threshold. */

import { RAMPS, rung } from "./colours.js";

/** Thresholds of the score that a field shows. */
export const THRESHOLDS = {
  add: { colour: "#d55e00", text: "add", meaning: "below it a state becomes a landmark" },
  localize: { colour: "#0072b2", text: "localize", meaning: "above it the agent takes itself to be there" },
};

/** One value of a place from those of its headings. @param {number[]} values @param {string} headings */
export function placeValue(values, headings) {
  const known = values.filter((value) => value !== null);
  if (!known.length) return null;
  return headings === "best" ? Math.max(...known) : known.reduce((sum, value) => sum + value, 0) / known.length;
}

/** The part of the score's range that a field uses, in eighths: equal clicks get equal colours, and none is wasted. */
export function usedRange([low, high], values) {
  const known = values.flat().filter((value) => value !== null);
  const eighth = (high - low) / 8;
  const below = Math.floor((known.reduce((one, other) => Math.min(one, other), Infinity) - low) / eighth + 1e-9);
  const above = Math.ceil((known.reduce((one, other) => Math.max(one, other), -Infinity) - low) / eighth - 1e-9);
  return known.length && above > below ? [
    low + Math.max(0, below) * eighth,
    low + Math.min(8, above) * eighth,
  ] : [low, high];
}

/** Left, low, right, high of the square of place number `place`, in the world. */
export function squareOf(places, place, kind) {
  const { x, y, side } = places;
  if (kind === "grid") return [x[place] - side / 2, y[place] - side / 2, x[place] + side / 2, y[place] + side / 2];
  const [column, row] = [Math.floor(x[place] / side), Math.floor(y[place] / side)];
  return [column * side, row * side, (column + 1) * side, (row + 1) * side];
}

/** The place whose square holds x, y; null where there is none. */
export function placeAt(places, kind, x, y) {
  const found = places.x.findIndex((_, place) => {
    const [x0, y0, x1, y1] = squareOf(places, place, kind);
    return x >= x0 && x < x1 && y >= y0 && y < y1;
  });
  return found < 0 ? null : found;
}

/**
 * @param {CanvasRenderingContext2D} pen @param {any} view @param {any} map
 * @param {{places: any, values: number[][], range: number[], headings: string,
 *   thresholds: Record<string, number>}} field
 */
export function drawField(pen, view, map, field) {
  const [low, high] = field.range;
  const share = (value) => (value - low) / Math.max(high - low, 1e-9);
  field.values.forEach((values, place) => {
    const square = squareOf(field.places, place, map.kind);
    if (field.headings === "each" && values.length > 1) drawWedges(
      pen,
      view,
      square,
      field.places.headings,
      values,
      share,
    );
    else drawSquare(pen, view, square, placeValue(values, field.headings), share);
  });
}

function drawSquare(pen, view, [x0, y0, x1, y1], value, share) {
  if (value === null) return;
  pen.fillStyle = RAMPS.viridis[rung(share(value))];
  const [left, right] = [Math.round(view.left(x0)), Math.round(view.left(x1))];
  const [top, bottom] = [view.top(y0), view.top(y1)].map(Math.round).sort((one, other) => one - other);
  pen.fillRect(left, top, right - left, bottom - top);
}

/** A square as wedges, each towards the heading it stands for. */
function drawWedges(pen, view, [x0, y0, x1, y1], headings, values, share) {
  const [left, top] = [view.left((x0 + x1) / 2), view.top((y0 + y1) / 2)];
  const reach = ((x1 - x0) / 2) * view.scale;
  headings.forEach((degrees, heading) => {
    if (values[heading] === null) return;
    const turn = (degrees * Math.PI) / 180;
    const corner = (side) => {
      const angle = turn + side * (Math.PI / 4);
      return [left + Math.SQRT2 * reach * Math.cos(angle), top + Math.SQRT2 * reach * Math.sin(angle) * view.flip];
    };
    pen.fillStyle = RAMPS.viridis[rung(share(values[heading]))];
    pen.beginPath();
    pen.moveTo(left, top);
    pen.lineTo(...corner(-1));
    pen.lineTo(...corner(1));
    pen.fill();
  });
}

/** Sides between squares that are above and those that are not; in the world. @returns {number[][]} */
export function outline(places, kind, above) {
  const lattice = new Map();
  const at = (place) => {
    const [x0, y0] = squareOf(places, place, kind);
    return [
      Math.round(x0 / places.side - (kind === "grid" ? 0.5 : 0)),
      Math.round(y0 / places.side - (kind === "grid" ? 0.5 : 0)),
    ];
  };
  above.forEach((_, place) => lattice.set(at(place).join(), place));
  const sides = [];
  above.forEach((is, place) => {
    if (!is) return;
    const [x0, y0, x1, y1] = squareOf(places, place, kind);
    const [column, row] = at(place);
    const around = [[-1, 0, x0, y0, x0, y1], [1, 0, x1, y0, x1, y1], [0, -1, x0, y0, x1, y0], [0, 1, x0, y1, x1, y1]];
    for (const [right, down, ...side] of around) {
      const other = lattice.get(`${column + right},${row + down}`);
      if (other === undefined || !above[other]) sides.push(side);
    }
  });
  return sides;
}

/** Where the field crosses a threshold. */
export function drawOutlines(pen, view, map, field, theme) {
  const headings = field.headings === "each" ? "best" : field.headings;
  for (const [name, { colour }] of Object.entries(THRESHOLDS)) {
    const threshold = field.thresholds[name];
    if (threshold === null || threshold === undefined) continue;
    const above = field.values.map((values) => (placeValue(values, headings) ?? -Infinity) >= threshold);
    const sides = outline(field.places, map.kind, above);
    pen.beginPath();
    for (const [x0, y0, x1, y1] of sides) {
      pen.moveTo(view.left(x0), view.top(y0));
      pen.lineTo(view.left(x1), view.top(y1));
    }
    pen.lineCap = "round";
    for (const [style, width] of [[theme.halo, 5], [colour, 2.5]]) {
      [pen.strokeStyle, pen.lineWidth] = [style, width];
      pen.stroke();
    }
    pen.lineCap = "butt";
  }
}
