// Asks the user before something is lost.

import { element } from "./dom.js";

// Returns whether the user agreed. `action` is the verb on the button.
export function confirmed(title, sentence, action) {
  const dialog = element("dialog", { "aria-labelledby": "confirm-title", "aria-describedby": "confirm-words" },
    element("form", { method: "dialog" },
      element("h2", { id: "confirm-title" }, title),
      element("p", { id: "confirm-words" }, sentence),
      element("div", { class: "actions" },
        element("button", { class: "quiet", value: "", autofocus: true }, "Cancel"),
        element("button", { class: "main danger", value: "yes" }, action))));
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((done) => dialog.addEventListener("close", () => {
    dialog.remove();
    done(dialog.returnValue === "yes");
  }));
}
