/**
 * The field from a place: asks for the cache, waits while it is made, asks for values; the latest question wins.
 * What is shown at once is the field of the nearest view; that of the very pose takes its place when it is there.
 */

import { checkpointOf, currentRun, say } from "./state.js";

const WAIT = 700; // milliseconds between two looks at a cache in the making
const SETTLED = 80; // milliseconds without another question, as while the reference is turned

export class FieldKeeper {
  /** @param {import("./state.js").State} state @param {any} source */
  constructor(state, source) {
    [this.state, this.source] = [state, source];
    this.turn = 0;
    [this.milliseconds, this.exactMilliseconds] = [null, null]; // of the last question, once answered
    this.asking = false; // what is shown is not yet the answer to the last question
    state.watch(["run", "checkpoints", "runs"], () => this.follow());
    state.watch(["reference"], () => this.ask());
    state.watch(["graph"], () => this.takeThresholds());
  }

  /** Another run or checkpoint: what is known of its cache is not what was known. */
  follow() {
    const run = currentRun(this.state);
    const key = run ? `${run.id} ${checkpointOf(this.state, run.id)} ${run.env_steps}` : null;
    if (key === this.key) return;
    this.key = key;
    this.state.update({ fields: null, field: null });
    if (this.state.values.reference) this.ask();
  }

  /** Sliders begin where the agent's own thresholds are. */
  takeThresholds() {
    const own = this.state.values.graph?.thresholds ?? {};
    const text = JSON.stringify(own);
    if (text === this.own) return;
    this.own = text;
    this.state.update({ thresholds: Object.fromEntries(Object.entries(own).filter(([, value]) => value !== null)) });
  }

  async ask() {
    const { reference } = this.state.values;
    const run = currentRun(this.state);
    this.turn += 1;
    const turn = this.turn;
    [this.milliseconds, this.exactMilliseconds] = [null, null];
    this.asking = Boolean(reference && run);
    if (!this.asking) {
      this.state.update({ field: null });
      return;
    }
    const began = performance.now();
    try {
      const ready = await this.cache(run, turn);
      if (!ready || turn !== this.turn) return;
      const checkpoint = checkpointOf(this.state, run.id);
      const field = await this.source.field(run.id, checkpoint, reference);
      if (turn !== this.turn) return;
      this.state.update({ field });
      this.time("milliseconds", turn, began);
      if (!field.exact && this.source.live) this.sharpen(turn, began, run.id, checkpoint, reference);
    } catch (error) {
      if (turn === this.turn) this.failed(error);
    } finally {
      if (turn === this.turn) this.asking = false;
    }
  }

  /** Once no other question follows, the field from the pose itself. */
  async sharpen(turn, began, run, checkpoint, reference) {
    await new Promise((resolve) => setTimeout(resolve, SETTLED));
    if (turn !== this.turn) return;
    try {
      const field = await this.source.field(run, checkpoint, reference, true);
      if (turn !== this.turn || !field.exact) return;
      this.state.update({ field });
      this.time("exactMilliseconds", turn, began);
    } catch (error) {
      if (turn === this.turn) say(this.state, error.message); // the field of the nearest view stays
    }
  }

  /** Wait for the cache; false where there is none or the question is no longer asked. */
  async cache(run, turn) {
    const checkpoint = checkpointOf(this.state, run.id);
    let { fields } = this.state.values;
    if (fields?.state !== "ready") fields = await this.source.fields(run.id, checkpoint);
    if (fields.state === "absent") fields = { ...fields, ...(await this.source.makeFields(run.id, checkpoint)) };
    while (turn === this.turn) {
      this.state.update({ fields });
      if (fields.state === "ready") return true;
      if (fields.state === "impossible") return false;
      await new Promise((resolve) => setTimeout(resolve, WAIT));
      if (turn === this.turn) fields = await this.source.fields(run.id, checkpoint);
    }
    return false;
  }

  /** Note how long an answer took to the screen, unless another question was asked meanwhile. */
  time(figure, turn, began) {
    onScreen(() => {
      if (turn === this.turn) this[figure] = performance.now() - began;
    });
  }

  failed(error) {
    this.state.update({ field: null });
    say(this.state, error.message);
  }
}

/** When what was changed is on the screen: the next frame but one begins then. @param {() => void} tell */
function onScreen(tell) {
  requestAnimationFrame(() => requestAnimationFrame(tell));
}
