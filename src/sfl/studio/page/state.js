/** What the page shows, in one place: parts of the page change it and are told when others do. */

import { Refused } from "./source.js";

export class State {
  /** @param {Record<string, any>} values the first values; no name may be added later */
  constructor(values) {
    this.values = { ...values };
    /** @type {{names: Set<string>, tell: () => void}[]} */
    this.watchers = [];
  }

  /** Change values and tell, once each, those who watch one that differs. @param {Record<string, any>} changes */
  update(changes) {
    const changed = Object.keys(changes).filter((name) => this.values[name] !== changes[name]);
    for (const name of changed) {
      if (!(name in this.values)) throw new Error(`The page's state has no "${name}".`);
      this.values[name] = changes[name];
    }
    if (!changed.length) return;
    for (const watcher of this.watchers) if (changed.some((name) => watcher.names.has(name))) watcher.tell();
  }

  /** Be told now and whenever one of these changes. @param {string[]} names @param {() => void} tell */
  watch(names, tell) {
    this.watchers.push({ names: new Set(names), tell });
    tell();
  }
}

export const NO_TASK = Object.freeze({ start: null, goal: null, picture: null, level: null, pair: null });

/** The values a page begins with. */
export function firstValues() {
  return {
    runs: [], // as /api/runs lists them
    run: null, // the id of the run on the map
    checkpoints: {}, // run id -> the checkpoint's name that was chosen; absent: the last one
    shown: new Set(), // runs in the curves and the configuration
    map: null,
    graph: null,
    colourBy: "visits",
    filters: true, // only edges in force
    layers: { edges: true, landmarks: true, frontier: true, coverage: false, tasks: false },
    tool: "look", // or "send"
    cursor: null, // [x, y] of the keyboard's cross-hairs
    hover: null, // landmark under the pointer
    picked: null, // landmark that was clicked
    reference: null, // pose [x, y, degrees or null] whose field is shown
    fields: null, // as /api/runs/ID/fields says
    field: null, // as /api/runs/ID/field answered, and env_steps of its checkpoint
    renewing: null, // as /api/runs/ID/fields says of a newer checkpoint, while the field of the older one is shown
    thresholds: {}, // name -> value, as the sliders stand
    headings: "mean", // how the headings of a place become one colour: "mean", "best", "each"
    task: NO_TASK, // what the players of the session were given
    draft: null, // {start, goal} being drawn or asked for: nobody walks there yet
    players: [], // [{run, checkpoint}]
    session: null,
    playhead: 0,
    playing: false,
    speed: 8,
    tab: "place",
    theme: "auto",
    projector: false,
    message: null, // {text, kind}
    lost: null, // why the server cannot be asked, as long as it cannot
    epoch: 0, // one more whenever the server is there again: what could not be had is asked for anew
  };
}

/** The run on the map. @param {State} state */
export function currentRun(state) {
  return state.values.runs.find((run) => run.id === state.values.run) ?? null;
}

/** The name of the checkpoint that is shown of a run. @param {State} state @param {string} id */
export function checkpointOf(state, id) {
  const run = state.values.runs.find((one) => one.id === id);
  const names = run ? run.checkpoints.map((one) => one.name) : [];
  const chosen = state.values.checkpoints[id];
  return names.includes(chosen) ? chosen : (names.at(-1) ?? null);
}

/** Say something to the user in one line. @param {State} state @param {string} text @param {"error"|"note"} [kind] */
export function say(state, text, kind = "error") {
  state.update({ message: { text, kind } });
}

/**
 * An answer that could not be had: a line that goes, or a banner for as long as the server is gone. An error of the
 * page's own goes on to the console.
 * @param {State} state @param {any} error
 */
export function complain(state, error) {
  if (!(error instanceof Refused)) throw error;
  if (error.status === 0) state.update({ lost: error.message });
  else say(state, error.message);
}
