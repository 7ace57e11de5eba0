/** What one can ask for on the map, whoever asks, mouse or keyboard: what makes no sense is refused here, in a line. */

import { number } from "./dom.js";
import { walkable } from "./ground.js";
import { NO_TASK, say } from "./state.js";

const UNDER_WAY = "An episode is under way: end it (Esc, or its stop button) to look at a place.";
const PUT_AWAY = "The episode, which was over, is put away.";

export class Acts {
  /** @param {import("./state.js").State} state @param {import("./live.js").Live} live */
  constructor(state, live) {
    [this.state, this.live] = [state, live];
  }

  /**
   * The field from a pose; null: none. An episode that is being played is not ended by the way.
   * @param {any} reference @param {number|null} picked the landmark whose pose it is
   */
  look(reference, picked) {
    const { session, playing, task } = this.state.values;
    if (!reference) {
      this.state.update({ reference, picked });
      return;
    }
    if (picked === null && !this.free(reference, "nobody can look from there")) return;
    if (session && (playing || !session.over)) {
      say(this.state, UNDER_WAY, "note");
      return;
    }
    this.state.update({
      reference,
      picked,
      tab: "place",
      session: null,
      task: { ...NO_TASK, level: task.level },
    });
    if (session) say(this.state, PUT_AWAY, "note");
  }

  /** The start of an episode; its goal is still to be named. @param {number[]} start */
  from(start) {
    if (this.free(start, "nobody can start there")) this.state.update({ draft: { start, goal: null } });
  }

  /** Send the players from a start to a goal. @param {any} task */
  go(task) {
    const named = task.level === null;
    const may = !named || (
      (!task.start || this.free(task.start, "nobody can start there")) &&
      (!task.goal || this.free(task.goal, "it is no goal"))
    );
    if (may) this.live.go(task);
    else this.state.update({ draft: null });
  }

  /** Whether somebody could stand there; if not, why not is said. @param {number[]} pose @param {string} so */
  free([x, y], so) {
    const { map } = this.state.values;
    const may = !map || map.kind === "other" || walkable(map, x, y);
    if (!may) say(this.state, `(${number(x)}, ${number(y)}) is inside a wall or off the map: ${so}.`);
    return may;
  }
}
