/** What moves on the map: the pointer's landmark, the reference of the field, the task, agents and their beliefs. */

import { walkable } from "./ground.js";
import { dotRadius, drawLetter } from "./layers.js";

/** Pixels between a reference and the handle that turns it. */
export const HANDLE = 30;

/** Where a pose's heading points on the screen, as a unit vector. */
export function ahead(view, degrees) {
  const turn = (degrees * Math.PI) / 180;
  return [Math.cos(turn), Math.sin(turn) * view.flip];
}

/** Where the handle that turns the reference lies. @returns {[number, number]} */
export function handleAt(view, [x, y, degrees]) {
  const [right, down] = ahead(view, degrees ?? 0);
  return [view.left(x) + HANDLE * right, view.top(y) + HANDLE * down];
}

/**
 * @param {CanvasRenderingContext2D} pen @param {any} view @param {any} values the state @param {any} look
 * @param {Record<string, any>} theme
 */
export function drawOverlay(pen, view, values, look, theme) {
  const { session, draft, reference, cursor } = values;
  if (look) {
    const radius = dotRadius(view, look.x.length) + 3;
    for (const [id, width] of [[values.hover, 2], [values.picked, 3]]) {
      if (id !== null && id < look.x.length) ring(
        pen,
        view.left(look.x[id]),
        view.top(look.y[id]),
        radius,
        theme.accent,
        width,
        theme,
      );
    }
  }
  if (reference) drawReference(pen, view, reference, theme);
  if (session) drawTrails(pen, view, values, look, theme);
  if (session) drawEnds(pen, view, values, session, theme);
  if (session) drawAgents(pen, view, values, theme);
  if (draft?.start && draft.goal) arrow(pen, view, draft.start, draft.goal, theme);
  if (draft) drawEnds(pen, view, values, draft, theme);
  if (cursor) drawCursor(pen, view.left(cursor[0]), view.top(cursor[1]), theme);
}

/** Start and goal, each where somebody could be: nobody is sent into a wall. */
function drawEnds(pen, view, { map }, { start, goal }, theme) {
  const free = (pose) => pose && (!map || map.kind === "other" || walkable(map, pose[0], pose[1]));
  if (free(start)) drawMark(pen, view, start, "A", theme);
  if (free(goal)) drawGoal(pen, view, goal, map?.kind === "maze" ? map.success_radius : 0, theme);
}

function ring(pen, left, top, radius, colour, width, theme) {
  pen.beginPath();
  pen.arc(left, top, radius, 0, 2 * Math.PI);
  haloed(pen, colour, width, theme);
}

function haloed(pen, colour, width, theme) {
  for (const [style, extra] of [[theme.halo, 2.5], [colour, 0]]) {
    [pen.strokeStyle, pen.lineWidth] = [style, width + extra];
    pen.stroke();
  }
}

function drawReference(pen, view, reference, theme) {
  const [left, top] = [view.left(reference[0]), view.top(reference[1])];
  const [right, down] = handleAt(view, reference);
  pen.beginPath();
  pen.moveTo(left, top);
  pen.lineTo(right, down);
  pen.setLineDash(reference[2] === null ? [2, 3] : []);
  haloed(pen, theme.ink, 2, theme);
  pen.setLineDash([]);
  ring(pen, left, top, 7, theme.ink, 2.5, theme);
  pen.beginPath();
  pen.arc(right, down, 5, 0, 2 * Math.PI);
  haloed(pen, theme.ink, 2, theme);
  pen.fillStyle = reference[2] === null ? theme.floor : theme.ink;
  pen.fill();
}

function drawMark(pen, view, [x, y, degrees], letter, theme) {
  const [left, top] = [view.left(x), view.top(y)];
  if (degrees !== null && degrees !== undefined) {
    const [right, down] = ahead(view, degrees);
    pen.beginPath();
    pen.moveTo(left, top);
    pen.lineTo(left + 17 * theme.unit * right, top + 17 * theme.unit * down);
    haloed(pen, theme.ink, 2.5, theme);
  }
  pen.beginPath();
  pen.arc(left, top, 10 * theme.unit, 0, 2 * Math.PI);
  haloed(pen, theme.ink, 1, theme);
  pen.fillStyle = theme.ink;
  pen.fill();
  drawLetter(pen, letter, left, top, theme);
}

function drawGoal(pen, view, goal, radius, theme) {
  const [left, top] = [view.left(goal[0]), view.top(goal[1])];
  if (radius * view.scale > 12) {
    pen.beginPath();
    pen.arc(left, top, radius * view.scale, 0, 2 * Math.PI);
    pen.setLineDash([4, 4]);
    haloed(pen, theme.ink, 1.25, theme);
    pen.setLineDash([]);
  }
  drawMark(pen, view, goal, "B", theme);
}

function arrow(pen, view, start, goal, theme) {
  pen.beginPath();
  pen.moveTo(view.left(start[0]), view.top(start[1]));
  pen.lineTo(view.left(goal[0]), view.top(goal[1]));
  pen.setLineDash([6, 5]);
  haloed(pen, theme.ink, 2, theme);
  pen.setLineDash([]);
}

function drawCursor(pen, left, top, theme) {
  pen.beginPath();
  for (const [right, down] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
    pen.moveTo(left + 5 * right, top + 5 * down);
    pen.lineTo(left + 14 * right, top + 14 * down);
  }
  haloed(pen, theme.accent, 2, theme);
}

/**
 * Draw of each agent what `draw` does, at its step of the playhead. Those that take the same way walk side by side.
 * @param {(now: any, colour: string, player: any) => void} draw
 */
function forPlayers(pen, values, theme, draw) {
  const { players } = values.session;
  players.forEach((player, place) => {
    const now = player.steps[Math.min(values.playhead, player.steps.length - 1)];
    if (!now) return;
    const aside = 3.5 * (place - (players.length - 1) / 2);
    pen.save();
    pen.translate(aside, aside);
    draw(now, theme.kinds[place], player);
    pen.restore();
  });
}

/** What it plans, where the landmarks on the map are its own, and the way it went. */
function drawTrails(pen, view, values, look, theme) {
  forPlayers(pen, values, theme, (now, colour, player) => {
    const own = player.run === values.run && player.checkpoint === values.graph?.checkpoint;
    if (look && own) drawRoute(pen, view, look, values.session.goal, now, colour, theme);
    pen.beginPath();
    const passed = player.steps.slice(0, values.playhead + 1).filter(({ pose }) => pose);
    passed.forEach(({ pose: [x, y] }, step) => pen[step ? "lineTo" : "moveTo"](view.left(x), view.top(y)));
    pen.lineJoin = "round";
    pen.globalAlpha = 0.85;
    haloed(pen, colour, 2.75, theme);
    pen.globalAlpha = 1;
  });
}

/** Where it is, and where it believes to be. */
function drawAgents(pen, view, values, theme) {
  forPlayers(pen, values, theme, (now, colour) => {
    if (now.believed && now.pose) drawBelief(pen, view, now, colour, theme);
    if (now.pose) drawAgent(pen, view, now.pose, colour, theme);
  });
}

function drawRoute(pen, view, look, goal, now, colour, theme) {
  const points = now.route
    .map((id) => (id === -1 ? goal && [goal[0], goal[1]] : [look.x[id], look.y[id]]))
    .filter((point) => point && Number.isFinite(point[0]));
  pen.beginPath();
  points.forEach(([x, y], place) => pen[place ? "lineTo" : "moveTo"](view.left(x), view.top(y)));
  pen.setLineDash([2, 5]);
  pen.lineCap = "round";
  haloed(pen, colour, 3, theme);
  pen.setLineDash([]);
  pen.lineCap = "butt";
  for (const [x, y] of points) dot(pen, view.left(x), view.top(y), 3.5, colour, theme);
  const target = now.target === -1 ? goal : now.target !== null && [look.x[now.target], look.y[now.target]];
  if (target && Number.isFinite(target[0])) {
    ring(pen, view.left(target[0]), view.top(target[1]), 9, colour, 3, theme);
  }
}

function dot(pen, left, top, radius, colour, theme) {
  pen.beginPath();
  pen.arc(left, top, radius, 0, 2 * Math.PI);
  [pen.strokeStyle, pen.lineWidth, pen.fillStyle] = [theme.halo, 2, colour];
  pen.stroke();
  pen.fill();
}

/** A hollow square where the agent takes itself to be, joined with where it is. */
function drawBelief(pen, view, now, colour, theme) {
  const [left, top] = [view.left(now.believed[0]), view.top(now.believed[1])];
  pen.beginPath();
  pen.moveTo(view.left(now.pose[0]), view.top(now.pose[1]));
  pen.lineTo(left, top);
  haloed(pen, colour, 1.5, theme);
  pen.beginPath();
  pen.rect(left - 7, top - 7, 14, 14);
  haloed(pen, colour, 2.5, theme);
}

function drawAgent(pen, view, [x, y, degrees], colour, theme) {
  const [left, top] = [view.left(x), view.top(y)];
  const [right, down] = ahead(view, degrees ?? 0);
  const size = Math.max(9, Math.min(16, 0.4 * view.scale)) * theme.unit;
  pen.beginPath();
  pen.moveTo(left + 1.3 * size * right, top + 1.3 * size * down);
  pen.lineTo(left - size * right - 0.9 * size * down, top - size * down + 0.9 * size * right);
  pen.lineTo(left - 0.5 * size * right, top - 0.5 * size * down);
  pen.lineTo(left - size * right + 0.9 * size * down, top - size * down - 0.9 * size * right);
  pen.closePath();
  [pen.strokeStyle, pen.lineWidth, pen.fillStyle] = [theme.halo, 3, colour];
  pen.stroke();
  pen.fill();
}
