/** The mouse on the map: pan, zoom, look at a place, turn the reference, send the agent from here to there. */

import { walkable } from "./ground.js";
import { HANDLE, handleAt } from "./overlay.js";
import { NO_TASK } from "./state.js";

const STILL = 5; // pixels a click may wander
const GRIP = 11; // pixels around the handle that take hold of it

/** A place as the world counts: a grid's cells, a maze's whole units. @returns {[number, number]} */
export function snapped(map, [x, y]) {
  return [Math.round(x), Math.round(y)];
}

/** Degrees of the way from one place to another; a grid knows four. */
export function bearing(map, from, to) {
  const degrees = (Math.atan2(to[1] - from[1], to[0] - from[0]) * 180) / Math.PI;
  const whole = map.kind === "grid" ? 90 * Math.round(degrees / 90) : Math.round(degrees);
  return (whole + 360) % 360;
}

/** Middle and width of what two fingers hold. @param {Map<number, number[]>} fingers */
function spanOf(fingers) {
  const [[left, top], [right, bottom]] = fingers.values();
  return { left: (left + right) / 2, top: (top + bottom) / 2, wide: Math.hypot(right - left, bottom - top) };
}

export class Pointer {
  /**
   * @param {import("./state.js").State} state @param {import("./map.js").MapPanel} panel
   * @param {import("./acts.js").Acts} acts
   */
  constructor(state, panel, acts) {
    [this.state, this.panel, this.acts] = [state, panel, acts];
    /** @type {{kind: string, left: number, top: number, wandered: boolean, from?: number[]}|null} */
    this.drag = null;
    /** @type {Map<number, number[]>} where each finger is */
    this.fingers = new Map();
    const { box } = panel;
    box.addEventListener("pointerdown", (event) => this.down(event));
    box.addEventListener("pointermove", (event) => this.move(event));
    box.addEventListener("pointerup", (event) => this.up(event));
    box.addEventListener("pointercancel", (event) => {
      if (this.drawing) state.update({ draft: null }); // nobody let go: nobody is sent
      this.lift(event);
    });
    box.addEventListener("pointerleave", () => this.drag ?? state.update({ hover: null }));
    // A ring around the map tells those who came by keyboard where they are; a mouse shows it itself.
    box.addEventListener("blur", () => delete box.dataset.pointed);
    box.addEventListener("contextmenu", (event) => event.preventDefault());
    box.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    // A task that is taken back while it is being drawn, as by Escape, is not sent when the button is let go.
    state.watch(["draft"], () => this.drawing && !state.values.draft && this.cancel());
  }

  at(event) {
    const { left, top } = this.panel.box.getBoundingClientRect();
    return [event.clientX - left, event.clientY - top];
  }

  down(event) {
    if (!this.panel.shownMap) return;
    const [left, top] = this.at(event);
    this.panel.box.setPointerCapture(event.pointerId);
    this.panel.box.dataset.pointed = "";
    this.fingers.set(event.pointerId, [left, top]);
    if (this.fingers.size > 1) {
      this.cancel();
      this.state.update({ draft: null });
      return;
    }
    const from = this.panel.view.world(left, top);
    this.drag = { kind: this.kindOf(event, left, top), left, top, wandered: false, from };
    this.state.update({ cursor: null });
  }

  /** A task is being drawn from a start to a goal. */
  get drawing() {
    return this.drag?.kind === "send" && this.drag.wandered && this.fingers.size < 2;
  }

  kindOf(event, left, top) {
    if (event.button !== 0) return "pan";
    const { reference, tool, session } = this.state.values;
    if (reference && !session) {
      const [right, down] = handleAt(this.panel.view, reference);
      if (Math.hypot(right - left, down - top) < GRIP) return "turn";
    }
    return tool === "send" || event.shiftKey ? "send" : "pan";
  }

  move(event) {
    const [left, top] = this.at(event);
    const { drag, panel, state } = this;
    if (this.fingers.size > 1) {
      this.pinch(event.pointerId, [left, top]);
      return;
    }
    if (!drag) {
      if (panel.shownMap && !this.fingers.size) state.update({ hover: panel.landmarkAt(left, top) });
      return;
    }
    drag.wandered ||= Math.hypot(left - drag.left, top - drag.top) > STILL;
    if (!drag.wandered) return;
    if (state.values.hover !== null) state.update({ hover: null });
    if (drag.kind === "pan") {
      panel.view.pan(left - drag.left, top - drag.top);
      [drag.left, drag.top] = [left, top];
      panel.box.dataset.drag = "pan";
      panel.moved();
    } else if (drag.kind === "turn") this.turn(left, top, false);
    else state.update({ draft: this.task(drag.from, panel.view.world(left, top)) });
  }

  /** Two fingers hold the world: it moves and grows with them. */
  pinch(finger, to) {
    if (!this.fingers.has(finger)) return;
    const { view } = this.panel;
    const before = spanOf(this.fingers);
    this.fingers.set(finger, to);
    const after = spanOf(this.fingers);
    view.pan(after.left - before.left, after.top - before.top);
    if (before.wide > 0 && after.wide > 0) view.zoom(after.wide / before.wide, after.left, after.top);
    this.panel.moved();
  }

  lift(event) {
    this.fingers.delete(event.pointerId);
    this.cancel();
  }

  up(event) {
    const { drag, state, panel } = this;
    this.lift(event);
    if (!drag) return;
    const [left, top] = this.at(event);
    const place = panel.view.world(left, top);
    if (drag.kind === "turn") this.turn(left, top, true);
    else if (drag.kind === "send" && drag.wandered) this.acts.go(this.task(drag.from, place));
    else if (drag.kind === "send") this.mark(place);
    else if (!drag.wandered && event.button === 0) this.click(left, top, place);
    else state.update({ hover: null });
  }

  cancel() {
    this.drag = null;
    delete this.panel.box.dataset.drag;
  }

  /** A click of the sending tool: first the start, then the goal. */
  mark(place) {
    const { draft, map } = this.state.values;
    if (draft && !draft.goal) this.acts.go(this.task(draft.start, place));
    else this.acts.from([...snapped(map, place), 0]);
  }

  task(from, to) {
    const { map } = this.state.values;
    const [start, goal] = [snapped(map, from), snapped(map, to)];
    const degrees = bearing(map, start, goal);
    return { ...NO_TASK, start: [...start, degrees], goal: [...goal, degrees] };
  }

  click(left, top, place) {
    const { map, graph } = this.state.values;
    const landmark = this.panel.landmarkAt(left, top);
    if (landmark !== null) {
      const { x, y, degrees } = graph.landmarks;
      this.acts.look([x[landmark], y[landmark], degrees[landmark]], landmark);
    } else if (walkable(map, ...place)) this.acts.look([...snapped(map, place), null], null);
    else this.acts.look(null, null);
  }

  /** The heading follows the handle; close to the place itself it is any heading. */
  turn(left, top, done) {
    const { reference, map } = this.state.values;
    const { view } = this.panel;
    const [right, down] = [left - view.left(reference[0]), top - view.top(reference[1])];
    const near = Math.hypot(right, down) < HANDLE / 2.5;
    const degrees = near ? null : bearing(map, [0, 0], [right, down * view.flip]);
    if (done || degrees !== reference[2]) this.acts.look([reference[0], reference[1], degrees], null);
  }

  wheel(event) {
    if (!this.panel.shownMap) return;
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 16 : 1;
    const factor = Math.exp(-Math.max(-240, Math.min(240, event.deltaY * lines)) / 400);
    this.panel.view.zoom(factor, ...this.at(event));
    this.panel.moved();
  }
}
