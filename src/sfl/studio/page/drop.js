/** Pictures from outside: dropped onto the page, pasted, or chosen as a file, they become the goal. */

import { byId } from "./dom.js";
import { SERVERLESS } from "./live.js";
import { say } from "./state.js";

const LARGEST = 5e6; // bytes; the server takes no larger question

/** @param {import("./state.js").State} state @param {(picture: string) => void} take @param {boolean} live */
export function takePictures(state, take, live) {
  const read = (file) => {
    if (!live) return say(state, SERVERLESS);
    if (!["image/png", "image/jpeg"].includes(file.type)) return say(
      state,
      `A goal is a PNG or JPEG picture; ${file.name || "this"} is ${file.type || "something else"}.`,
    );
    if (file.size > LARGEST) return say(
      state,
      `${file.name} is too large for a goal picture; ${LARGEST / 1e6} MB are the most.`,
    );
    const reader = new FileReader();
    reader.onload = () => take(String(reader.result));
    return reader.readAsDataURL(file);
  };
  const carries = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  const drop = byId("drop");
  document.addEventListener("dragover", (event) => {
    if (!carries(event)) return;
    event.preventDefault();
    drop.hidden = false;
  });
  document.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) drop.hidden = true;
  });
  document.addEventListener("drop", (event) => {
    if (!carries(event)) return;
    event.preventDefault();
    drop.hidden = true;
    if (event.dataTransfer.files[0]) read(event.dataTransfer.files[0]);
  });
  document.addEventListener("paste", (event) => {
    const file = [...(event.clipboardData?.files ?? [])][0];
    if (file) read(file);
  });
  return read;
}
