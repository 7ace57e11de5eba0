/** Puts the page together. */

import { Acts } from "./acts.js";
import { ConfigPanel } from "./config.js";
import { CurvesPanel } from "./curves.js";
import { Display } from "./display.js";
import { Documents } from "./documents.js";
import { byId } from "./dom.js";
import { takePictures } from "./drop.js";
import { FieldKeeper } from "./field.js";
import { Keys } from "./keys.js";
import { Legend } from "./legend.js";
import { Live } from "./live.js";
import { LivePanel } from "./livepanel.js";
import { MapPanel } from "./map.js";
import { PlacePanel } from "./placepanel.js";
import { Pointer } from "./pointer.js";
import { RunsPanel } from "./runspanel.js";
import { ExportSource, HttpSource } from "./source.js";
import { firstValues, State } from "./state.js";

/** The page itself, for tests and the curious: to read, not to change. */
function show(state, panel, field) {
  const { values } = state;
  window.studio = Object.freeze({
    get ready() {
      return panel.firstPaint !== null || values.map?.kind === "other";
    },
    get firstPaint() {
      return panel.firstPaint;
    },
    get fieldMilliseconds() {
      return field.milliseconds;
    },
    get exactMilliseconds() {
      return field.exactMilliseconds;
    },
    get drawMilliseconds() {
      return panel.cost;
    },
    get live() {
      const { session, playhead, playing } = values;
      if (!session) return null;
      const players = session.players.map(
        ({ run, checkpoint, steps, end }) => ({ run, checkpoint, steps: steps.length, outcome: end?.outcome ?? null }),
      );
      return { id: session.id, playhead, playing, edge: session.edge, over: session.over, players };
    },
    get state() {
      const { run, checkpoints, colourBy, filters, tool, tab, reference, picked, hover } = values;
      const landmarks = values.graph?.landmarks.x.length ?? 0;
      const answered = values.field !== null && !field.asking;
      return {
        run,
        checkpoints: { ...checkpoints },
        colourBy,
        filters,
        tool,
        tab,
        reference,
        picked,
        hover,
        landmarks,
        field: answered,
        exact: answered && values.field.exact,
        fieldAt: values.field?.env_steps ?? null,
        draft: values.draft,
        lost: values.lost,
      };
    },
    fps: () => panel.frames.rate,
    screen: (x, y) => {
      const { left, top } = panel.box.getBoundingClientRect();
      return [left + panel.view.left(x), top + panel.view.top(y)];
    },
  });
}

function begin() {
  const source = window.SFL_EXPORT ? new ExportSource(window.SFL_EXPORT) : new HttpSource();
  const state = new State(firstValues());
  const display = new Display(state);
  const panel = new MapPanel(state);
  const field = new FieldKeeper(state, source);
  const live = new Live(state, source);
  const acts = new Acts(state, live);
  const picture = takePictures(
    state,
    (url) => live.go({
      start: (state.values.draft ?? state.values.task).start ?? state.values.map?.start ?? null,
      goal: null,
      picture: url,
      level: null,
      pair: null,
    }),
    source.live,
  );
  new Pointer(state, panel, acts);
  new Legend(state, panel, source);
  const runs = new RunsPanel(state);
  new PlacePanel(state, source, acts);
  const livePanel = new LivePanel(state, source, live, picture);
  new CurvesPanel(state, source);
  new ConfigPanel(state, source);
  new Keys(state, { panel, runs, display, live, livePanel, acts });
  for (const [id, key] of [["zoom-in", 1.35], ["zoom-out", 1 / 1.35], ["zoom-fit", null]]) {
    byId(id).addEventListener("click", () => {
      if (key) panel.view.zoom(key);
      else panel.view.fit();
      panel.moved();
    });
  }
  for (const tool of ["look", "send"]) byId(`tool-${tool}`).addEventListener("click", () => state.update({ tool }));
  show(state, panel, field);
  new Documents(state, source).begin();
}

begin();
